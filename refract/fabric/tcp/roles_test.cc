// SPDX-License-Identifier: Apache-2.0
// The node role: who proves the cluster's secret has it, and nothing else gives it, on real sockets.
#include <gtest/gtest.h>

#include <string>

#include "refract/base/testing/needed.h"
#include "refract/fabric/tcp/test_peer.h"

namespace refract::fabric::tcp {
namespace {

const Secret& cluster_secret() {
  static const Secret secret = secret_of("of nodes, for nodes");
  return secret;
}
const Secret& client_secret() {
  static const Secret secret = secret_of("of clients, not nodes");
  return secret;
}

class Roles : public testing::Test {
 protected:
  struct Outcome {
    Code code = Code::kOk;
    Report refusal;
    Role role = Role::kClient;  // As the node has it, where the channel has opened.
  };

  void make(const TestNodeOptions& options) { ends = std::make_unique<Ends>(options); }
  // One attempt; the channel stays open as long as the domain.
  [[nodiscard]] Outcome come_in(ClientDomain& domain) {
    End end(domain);
    const size_t before = ends->server->count(Op::kOpened);
    const auto channel = domain.connect(ends->node.address());
    if (!channel) return {.code = channel.error().code, .refusal = channel.error()};
    EXPECT_TRUE(settle([&] {
      end.turn();
      return end.count(Op::kOpened) == 1;
    }));
    Outcome outcome{.code = end.last(Op::kOpened)->code, .refusal = domain.last_refusal()};
    if (outcome.code != Code::kOk) return outcome;
    EXPECT_TRUE(settle([&] { return ends->server->count(Op::kOpened) > before; }));
    outcome.role = ServerDomain::role_of(*ends->server->last(Op::kOpened)->channel);
    return outcome;
  }
  [[nodiscard]] Outcome come_in(const ClientOptions& options) {
    const auto domain = test::needed(ClientDomain::create(options));
    return come_in(*domain);
  }
  [[nodiscard]] bool settle(const std::function<bool()>& done) { return ends->settle(done); }
  [[nodiscard]] const Reception::Counters& door() { return ends->node.reception().counters(); }

  [[nodiscard]] static Hello node_hello() {
    Hello hello = RawPeer::hello();
    hello.role = static_cast<uint32_t>(Role::kNode);
    return hello;
  }
  // The node's answer to this Hello, and to this proof behind it.
  [[nodiscard]] Challenge challenge_of(RawPeer& peer, const Hello& hello) {
    peer.send_frame(FrameKind::kHello, hello);
    HandshakeReader reader;
    EXPECT_TRUE(settle([&] { return peer.take_frame(reader); }));
    EXPECT_EQ(reader.kind(), FrameKind::kChallenge);
    return test::needed(reader.frame<Challenge>());
  }
  [[nodiscard]] Report refusal_of(RawPeer& peer) {
    HandshakeReader reader;
    EXPECT_TRUE(settle([&] { return peer.take_frame(reader); }));
    EXPECT_EQ(reader.kind(), FrameKind::kRefused);
    return refused_from_wire(test::needed(reader.frame<Refused>()));
  }
  [[nodiscard]] FrameKind answer_to(RawPeer& peer, const Proof& proof) {
    peer.send_frame(FrameKind::kProof, proof);
    HandshakeReader reader;
    EXPECT_TRUE(settle([&] { return peer.take_frame(reader); }));
    return reader.kind();
  }

  std::unique_ptr<Ends> ends;
};

bool says(const Report& report, std::string_view words) {
  return report.to_string().find(words) != std::string::npos;
}

TEST_F(Roles, the_cluster_secret_gives_the_node_role_also_after_a_restart_of_the_server) {
  make({.secret = &client_secret(), .cluster_secret = &cluster_secret()});
  const auto domain = test::needed(ClientDomain::create({.secret = &cluster_secret(), .role = Role::kNode}));
  EXPECT_EQ(come_in(*domain).role, Role::kNode);
  const Outcome client = come_in(ClientOptions{.secret = &client_secret()});
  EXPECT_EQ(client.code, Code::kOk);
  EXPECT_EQ(client.role, Role::kClient);

  ends->server.reset();
  ends->node.kill_server();
  ends->node.start_server();
  ends->server = std::make_unique<End>(ends->node.server());
  End end(*domain);
  ASSERT_TRUE(settle([&] {
    end.turn();
    return ends->server->count(Op::kOpened) == 1;
  }));
  EXPECT_EQ(ServerDomain::role_of(*ends->server->last(Op::kOpened)->channel), Role::kNode);
}

TEST_F(Roles, a_wrong_cluster_secret_is_refused_in_words) {
  make({.cluster_secret = &cluster_secret()});
  const Secret wrong = secret_of("of another cluster");
  const Outcome outcome = come_in({.secret = &wrong, .role = Role::kNode});
  EXPECT_EQ(outcome.code, Code::kAccessDenied);
  EXPECT_TRUE(says(outcome.refusal, "cluster secret is not this node's")) << outcome.refusal.to_string();
  EXPECT_TRUE(says(outcome.refusal, "cluster.secret_file")) << outcome.refusal.to_string();
  EXPECT_EQ(door().secret_wrong, 1u);
}

TEST_F(Roles, a_secret_gives_the_role_that_it_is_for_and_not_the_other) {
  make({.secret = &client_secret(), .cluster_secret = &cluster_secret()});
  EXPECT_EQ(come_in({.secret = &client_secret(), .role = Role::kNode}).code, Code::kAccessDenied);
  EXPECT_EQ(come_in({.secret = &cluster_secret(), .role = Role::kClient}).code, Code::kAccessDenied);
  EXPECT_EQ(door().secret_wrong, 2u);
  EXPECT_EQ(door().admitted, 0u);
}

// The loopback's clients need no secret; that makes no node of any of them.
TEST_F(Roles, the_node_role_needs_the_cluster_secret_where_clients_need_none) {
  make({.cluster_secret = &cluster_secret()});
  RawPeer peer(ends->node.address());
  EXPECT_EQ(challenge_of(peer, node_hello()).secret_wanted, 1u);
  EXPECT_EQ(answer_to(peer, Proof{}), FrameKind::kRefused);
  EXPECT_EQ(come_in(ClientOptions{}).role, Role::kClient);
  const Outcome without = come_in({.role = Role::kNode});
  EXPECT_EQ(without.code, Code::kInvalidArgument);
  EXPECT_TRUE(says(without.refusal, "cluster.secret_file")) << without.refusal.to_string();
}

TEST_F(Roles, a_node_without_a_cluster_secret_refuses_the_node_role_in_words) {
  make({.secret = &client_secret()});
  for (const Secret* secret : {&client_secret(), &cluster_secret()}) {
    const Outcome outcome = come_in({.secret = secret, .role = Role::kNode});
    EXPECT_EQ(outcome.code, Code::kAccessDenied);
    EXPECT_TRUE(says(outcome.refusal, "no cluster secret")) << outcome.refusal.to_string();
    EXPECT_TRUE(says(outcome.refusal, "cluster.secret_file")) << outcome.refusal.to_string();
  }
  EXPECT_EQ(door().secret_wrong, 0u) << "no proof was asked for";
}

// Even where an administrator gives both roles the same file.
TEST_F(Roles, a_proof_of_one_role_is_none_of_the_other) {
  make({.secret = &cluster_secret(), .cluster_secret = &cluster_secret()});
  for (const Role asked : {Role::kClient, Role::kNode}) {
    const Role other = asked == Role::kClient ? Role::kNode : Role::kClient;
    Hello hello = RawPeer::hello();
    hello.role = static_cast<uint32_t>(asked);
    RawPeer liar(ends->node.address());
    Transcript transcript = RawPeer::transcript_of(hello, challenge_of(liar, hello));
    transcript.role = other;
    EXPECT_EQ(answer_to(liar, {client_mac(cluster_secret(), transcript)}), FrameKind::kRefused);
    RawPeer honest(ends->node.address());
    transcript = RawPeer::transcript_of(hello, challenge_of(honest, hello));
    EXPECT_EQ(answer_to(honest, {client_mac(cluster_secret(), transcript)}), FrameKind::kWelcome);
  }
}

TEST_F(Roles, a_replayed_proof_of_a_node_is_worth_nothing) {
  make({.cluster_secret = &cluster_secret()});
  const Hello hello = node_hello();
  RawPeer honest(ends->node.address());
  const Challenge challenge = challenge_of(honest, hello);
  const Proof proof{client_mac(cluster_secret(), RawPeer::transcript_of(hello, challenge))};
  EXPECT_EQ(answer_to(honest, proof), FrameKind::kWelcome);
  RawPeer thief(ends->node.address());
  EXPECT_NE(challenge_of(thief, hello).nonce, challenge.nonce);
  EXPECT_EQ(answer_to(thief, proof), FrameKind::kRefused);
}

// What listens at the address of a member: it is asked for a challenge, then given a proof.
class FalseNode {
 public:
  explicit FalseNode(Domain& domain) : listening_(std::move(*listen("127.0.0.1:0"))), end_(domain) {}
  [[nodiscard]] std::string address() const { return test::needed(bound_address(listening_.get())); }
  [[nodiscard]] bool settle(const std::function<bool()>& done) {
    return settle_with([this] { end_.turn(); }, done);
  }
  [[nodiscard]] Hello hello() {
    int accepted = -1;
    EXPECT_TRUE(settle([&] {
      accepted = ::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      return accepted >= 0;
    }));
    peer_.emplace(Descriptor(accepted));
    return take<Hello>();
  }
  template <typename T>
  [[nodiscard]] T take() {
    HandshakeReader reader;
    EXPECT_TRUE(settle([&] { return peer_->take_frame(reader); }));
    return test::needed(reader.frame<T>());
  }
  [[nodiscard]] RawPeer& peer() { return *peer_; }
  [[nodiscard]] Code verdict() {
    EXPECT_TRUE(settle([&] { return end_.count(Op::kOpened) == 1; }));
    return end_.last(Op::kOpened)->code;
  }

 private:
  Descriptor listening_;
  End end_;
  std::optional<RawPeer> peer_;
};

TEST(FalseNodes, do_not_pass_by_sending_a_proof_back) {
  const auto domain = test::needed(ClientDomain::create({.secret = &cluster_secret(), .role = Role::kNode}));
  FalseNode impostor(*domain);
  ASSERT_TRUE(domain->connect(impostor.address()).has_value());
  EXPECT_EQ(impostor.hello().role, static_cast<uint32_t>(Role::kNode));
  impostor.peer().send_frame(
      FrameKind::kChallenge,
      Challenge{.version = kWireVersion, .secret_wanted = 1, .reserved = 0, .nonce = {}});
  impostor.peer().send_frame(
      FrameKind::kWelcome,
      Welcome{.mac = impostor.take<Proof>().mac, .facts = facts_to_wire({.boot_id = {}, .socket_path = {}})});
  EXPECT_EQ(impostor.verdict(), Code::kAccessDenied);
  EXPECT_TRUE(says(domain->last_refusal(), "does not know the cluster secret"));
}

// A node of before the roles reads a Hello's role as nothing, and would let a node in as a client.
TEST(FalseNodes, of_an_older_version_or_without_a_secret_are_none_in_the_node_role) {
  const struct {
    Challenge challenge;
    Code code;
  } rows[] = {
      {{.version = 1, .secret_wanted = 1, .reserved = 0, .nonce = {}}, Code::kUnsupported},
      {{.version = kWireVersion, .secret_wanted = 0, .reserved = 0, .nonce = {}}, Code::kAccessDenied},
  };
  for (const auto& [challenge, code] : rows) {
    const auto domain =
        test::needed(ClientDomain::create({.secret = &cluster_secret(), .role = Role::kNode}));
    FalseNode node(*domain);
    ASSERT_TRUE(domain->connect(node.address()).has_value());
    EXPECT_GE(node.hello().version_oldest, kWireVersionOfRoles);
    node.peer().send_frame(FrameKind::kChallenge, challenge);
    EXPECT_EQ(node.verdict(), code) << domain->last_refusal().to_string();
  }
}

TEST_F(Roles, roles_that_a_version_or_this_node_does_not_know_are_refused_in_words) {
  make({.cluster_secret = &cluster_secret()});
  Hello older = node_hello();
  older.version = 1;
  older.version_oldest = 1;
  RawPeer old_peer(ends->node.address());
  old_peer.send_frame(FrameKind::kHello, older);
  const Report of_version = refusal_of(old_peer);
  EXPECT_EQ(of_version.code, Code::kUnsupported);
  EXPECT_TRUE(says(of_version, "the client speaks version 1 of the TCP wire")) << of_version.to_string();

  for (const uint32_t unknown : {2U, 0x01000000U, ~0U}) {
    Hello strange = RawPeer::hello();
    strange.role = unknown;
    RawPeer peer(ends->node.address());
    peer.send_frame(FrameKind::kHello, strange);
    const Report refusal = refusal_of(peer);
    EXPECT_EQ(refusal.code, Code::kUnsupported);
    EXPECT_TRUE(says(refusal, std::to_string(unknown))) << refusal.to_string();
  }
  EXPECT_EQ(door().refused, 4u);
}

TEST_F(Roles, a_client_of_the_version_before_is_served_as_a_client) {
  make({.secret = &client_secret(), .cluster_secret = &cluster_secret()});
  Hello older = RawPeer::hello();
  older.version = kWireVersionOldest;
  older.version_oldest = kWireVersionOldest;
  RawPeer peer(ends->node.address());
  const Challenge challenge = challenge_of(peer, older);
  EXPECT_EQ(challenge.version, kWireVersionOldest);
  const Proof proof{client_mac(client_secret(), RawPeer::transcript_of(older, challenge))};
  EXPECT_EQ(answer_to(peer, proof), FrameKind::kWelcome);
}

TEST_F(Roles, clients_at_their_maximum_keep_no_node_out) {
  make({.cluster_secret = &cluster_secret(), .connections_max = 1, .connections_of_nodes = 1});
  const auto client = test::needed(ClientDomain::create());
  const auto late = test::needed(ClientDomain::create());
  const ClientOptions as_node{.secret = &cluster_secret(), .role = Role::kNode};
  const auto node = test::needed(ClientDomain::create(as_node));
  EXPECT_EQ(come_in(*client).code, Code::kOk);
  EXPECT_EQ(come_in(*late).code, Code::kOverloaded);
  EXPECT_EQ(come_in(*node).role, Role::kNode);
  EXPECT_EQ(come_in(as_node).code, Code::kOverloaded);
}

}  // namespace
}  // namespace refract::fabric::tcp
