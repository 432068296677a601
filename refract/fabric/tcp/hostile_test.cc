// SPDX-License-Identifier: Apache-2.0
// Peers that lie, stall, vanish or talk nonsense, on real sockets: each is refused or dropped with a counted
// reason, and a well-behaved client beside it is served all the time.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <string>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/fabric/tcp/test_peer.h"

namespace refract::fabric::tcp {
namespace {

const Secret& right_secret() {
  static const Secret secret = secret_of("the right secret");
  return secret;
}
const Secret& wrong_secret() {
  static const Secret secret = secret_of("the wrong secret");
  return secret;
}

class Hostile : public testing::Test {
 protected:
  void make(const TestNodeOptions& options = {}) {
    ends = std::make_unique<Ends>(options);
    witness = ends->open();
    ASSERT_NE(witness, nullptr);
    for (size_t i = 0; i < region.size(); ++i) region[i] = static_cast<std::byte>(i);
    key = ends->node.server()
              .register_region(
                  {.region = 1, .base = region.data(), .bytes = region.size(), .rights = {.read = true}})
              .value();
  }
  void TearDown() override {
    if (ends) expect_the_witness_is_served();
  }
  void expect_the_witness_is_served() {
    const size_t before = ends->server->count(Op::kReceive, witness_at_server());
    const Request message = send_of("still here?");
    ASSERT_EQ(witness->post({&message, 1}), 1u);
    EXPECT_TRUE(
        ends->settle([&] { return ends->server->count(Op::kReceive, witness_at_server()) > before; }));
  }
  [[nodiscard]] Channel* witness_at_server() {
    if (witness_at_server_ == nullptr) witness_at_server_ = ends->accepted_channel;
    return witness_at_server_;
  }
  [[nodiscard]] bool settle(const std::function<bool()>& done) { return ends->settle(done); }
  [[nodiscard]] const DomainCounters& counters() { return ends->node.server().counters(); }
  [[nodiscard]] const Reception::Counters& door() { return ends->node.reception().counters(); }
  [[nodiscard]] std::function<void()> turn() {
    return [this] { ends->turn(); };
  }
  // A raw peer behind its handshake.
  [[nodiscard]] RawPeer admitted(const Secret* secret = nullptr) {
    RawPeer peer(ends->node.address());
    EXPECT_TRUE(peer.shake_hands(turn(), secret));
    return peer;
  }
  // The answer to a handshake frame that is wrong: Refused with this code, then the end.
  void expect_refused(RawPeer& peer, Code code) {
    HandshakeReader reader;
    ASSERT_TRUE(settle([&] { return peer.take_frame(reader); }));
    ASSERT_EQ(reader.kind(), FrameKind::kRefused);
    const Report report = refused_from_wire(test::needed(reader.frame<Refused>()));
    EXPECT_EQ(report.code, code) << report.to_string();
    EXPECT_FALSE(report.what.empty());
    EXPECT_TRUE(settle([&] { return peer.has_ended(); }));
  }

  std::unique_ptr<Ends> ends;
  Channel* witness = nullptr;
  std::vector<std::byte> region = std::vector<std::byte>(16 * 1024 * 1024);
  RemoteKey key;

 private:
  Channel* witness_at_server_ = nullptr;
};

// In the handshake.

TEST_F(Hostile, garbage_instead_of_hello_is_dropped) {
  make();
  Prng prng(7);
  for (uint64_t i = 1; i <= 20; ++i) {
    RawPeer peer(ends->node.address());
    std::string garbage(1 + prng.below(200), '\0');
    for (char& each : garbage) each = static_cast<char>(prng.next());
    garbage[garbage.size() > 6 ? 6 : 0] = '\x7f';  // No kind of ours, whatever else it may look like.
    if (garbage.size() < 8) garbage.append(8 - garbage.size(), '\x7f');
    peer.send(garbage);
    EXPECT_TRUE(settle([&] { return peer.has_ended(); }));
    EXPECT_EQ(door().malformed, i);
  }
}

TEST_F(Hostile, an_http_client_is_dropped) {
  make();
  RawPeer peer(ends->node.address());
  peer.send("GET / HTTP/1.1\r\nHost: node\r\n\r\n");
  EXPECT_TRUE(settle([&] { return peer.has_ended(); }));
  EXPECT_EQ(door().malformed, 1u);
}

TEST_F(Hostile, frames_of_the_handshake_in_the_wrong_order_or_length_are_dropped) {
  make();
  RawPeer early(ends->node.address());
  early.send_frame(FrameKind::kProof, Proof{});
  RawPeer data(ends->node.address());
  data.send_header({.bytes = 16, .kind = FrameKind::kMessage});
  RawPeer shortened(ends->node.address());
  shortened.send_frame(FrameKind::kHello, uint64_t{kWireMagic} | uint64_t{1} << 32 | uint64_t{1} << 48);
  RawPeer huge(ends->node.address());
  huge.send_header({.bytes = FrameHeader::kBytesMax, .kind = FrameKind::kHello});
  RawPeer twice(ends->node.address());
  twice.send_frame(FrameKind::kHello, RawPeer::hello());
  twice.send_frame(FrameKind::kHello, RawPeer::hello());
  for (RawPeer* peer : {&early, &data, &shortened, &huge, &twice}) {
    EXPECT_TRUE(settle([&] { return peer->has_ended(); }));
  }
  EXPECT_EQ(door().malformed, 5u);
}

TEST_F(Hostile, a_wrong_secret_is_refused_at_both_ends) {
  make({.secret = &right_secret()});
  RawPeer peer(ends->node.address());
  EXPECT_FALSE(peer.shake_hands(turn(), &wrong_secret()));
  EXPECT_EQ(door().secret_wrong, 1u);

  const auto client = test::needed(ClientDomain::create({.secret = &wrong_secret()}));
  End end(*client);
  ASSERT_TRUE(client->connect(ends->node.address()).has_value());
  ASSERT_TRUE(settle([&] {
    end.turn();
    return end.count(Op::kOpened) == 1;
  }));
  EXPECT_EQ(end.last(Op::kOpened)->code, Code::kAccessDenied);
  EXPECT_EQ(client->last_refusal().code, Code::kAccessDenied);
  EXPECT_FALSE(client->last_refusal().next.empty());
}

TEST_F(Hostile, no_secret_is_refused_where_one_is_wanted) {
  make({.secret = &right_secret()});
  RawPeer peer(ends->node.address());
  EXPECT_FALSE(peer.shake_hands(turn()));  // With a proof of zeros.
  EXPECT_EQ(door().secret_wrong, 1u);

  const auto client = test::needed(ClientDomain::create());
  End end(*client);
  ASSERT_TRUE(client->connect(ends->node.address()).has_value());
  ASSERT_TRUE(settle([&] {
    end.turn();
    return end.count(Op::kOpened) == 1;
  }));
  EXPECT_EQ(end.last(Op::kOpened)->code, Code::kAccessDenied);
  EXPECT_NE(client->last_refusal().what.find("wants a secret"), std::string::npos);
}

TEST_F(Hostile, a_client_with_a_secret_does_not_talk_to_a_node_that_wants_none) {
  make();
  const auto client = test::needed(ClientDomain::create({.secret = &right_secret()}));
  End end(*client);
  ASSERT_TRUE(client->connect(ends->node.address()).has_value());
  ASSERT_TRUE(settle([&] {
    end.turn();
    return end.count(Op::kOpened) == 1;
  }));
  EXPECT_EQ(end.last(Op::kOpened)->code, Code::kAccessDenied);
}

TEST_F(Hostile, a_replayed_proof_is_worth_nothing) {
  make({.secret = &right_secret()});
  const Hello greeting = RawPeer::hello();
  HandshakeReader reader;
  RawPeer honest(ends->node.address());
  honest.send_frame(FrameKind::kHello, greeting);
  ASSERT_TRUE(settle([&] { return honest.take_frame(reader); }));
  const auto challenge = test::needed(reader.frame<Challenge>());
  const Proof proof{client_mac(right_secret(), RawPeer::transcript_of(greeting, challenge))};
  honest.send_frame(FrameKind::kProof, proof);
  reader.reset();
  ASSERT_TRUE(settle([&] { return honest.take_frame(reader); }));
  ASSERT_EQ(reader.kind(), FrameKind::kWelcome);

  // The thief says word for word what it overheard.
  RawPeer thief(ends->node.address());
  thief.send_frame(FrameKind::kHello, greeting);
  reader.reset();
  ASSERT_TRUE(settle([&] { return thief.take_frame(reader); }));
  EXPECT_NE(reader.frame<Challenge>().value().nonce, challenge.nonce);
  thief.send_frame(FrameKind::kProof, proof);
  expect_refused(thief, Code::kAccessDenied);
}

// A false node may hold up the challenge of the true one, but can only answer with what it knows.
TEST_F(Hostile, a_node_that_does_not_know_the_secret_is_found_out) {
  const auto listening = listen("127.0.0.1:0");
  ASSERT_TRUE(listening.has_value());
  const auto client = test::needed(ClientDomain::create({.secret = &right_secret()}));
  End end(*client);
  ASSERT_TRUE(client->connect(bound_address(listening->get()).value()).has_value());
  int accepted = -1;
  const auto client_turn = [&] { end.turn(); };
  ASSERT_TRUE(settle_with(client_turn, [&] {
    accepted = ::accept4(listening->get(), nullptr, nullptr, SOCK_CLOEXEC);
    return accepted >= 0;
  }));
  RawPeer impostor{Descriptor(accepted)};
  HandshakeReader reader;
  ASSERT_TRUE(settle_with(client_turn, [&] { return impostor.take_frame(reader); }));
  impostor.send_frame(FrameKind::kChallenge,
                      Challenge{.version = kWireVersion, .secret_wanted = 1, .reserved = 0, .nonce = {}});
  reader.reset();
  ASSERT_TRUE(settle_with(client_turn, [&] { return impostor.take_frame(reader); }));
  // The client's own proof, sent back: the roles differ.
  impostor.send_frame(FrameKind::kWelcome,
                      Welcome{.mac = test::needed(reader.frame<Proof>()).mac,
                              .facts = facts_to_wire({.identity = {}, .boot_id = {}, .socket_path = {}})});
  ASSERT_TRUE(settle_with(client_turn, [&] { return end.count(Op::kOpened) == 1; }));
  EXPECT_EQ(end.last(Op::kOpened)->code, Code::kAccessDenied);
  EXPECT_NE(client->last_refusal().what.find("does not know the secret"), std::string::npos);
}

TEST_F(Hostile, other_versions_are_refused_by_name) {
  make();
  Hello newer = RawPeer::hello();
  newer.version = static_cast<uint16_t>(kWireVersion + 2);
  newer.version_oldest = static_cast<uint16_t>(kWireVersion + 1);
  Hello older = RawPeer::hello();
  older.version = 0;
  older.version_oldest = 0;
  for (const Hello& hello : {newer, older}) {
    RawPeer peer(ends->node.address());
    peer.send_frame(FrameKind::kHello, hello);
    expect_refused(peer, Code::kUnsupported);
  }
  // A newer client that still speaks ours is met in our version.
  Hello bilingual = RawPeer::hello();
  bilingual.version = static_cast<uint16_t>(kWireVersion + 1);
  RawPeer peer(ends->node.address());
  peer.send_frame(FrameKind::kHello, bilingual);
  HandshakeReader reader;
  ASSERT_TRUE(settle([&] { return peer.take_frame(reader); }));
  ASSERT_EQ(reader.kind(), FrameKind::kChallenge);
  EXPECT_EQ(reader.frame<Challenge>().value().version, kWireVersion);
}

// It would look for keys in the wrong shards. With one shard, or routing by the hash, it finds them.
TEST_F(Hostile, a_client_that_knows_no_slots_is_refused_only_where_it_would_go_astray) {
  struct Case {
    uint32_t shards;
    uint32_t copies;
    uint16_t version;
    bool is_let_in;
    bool is_spread = false;
  };
  constexpr uint16_t kBefore = kWireVersionOfCopies - 1;
  for (const Case& each : {Case{3, 1, kBefore, false}, Case{3, 0, kBefore, true}, Case{1, 1, kBefore, true},
                           Case{3, 1, kWireVersionOfCopies, true}, Case{1, 1, kBefore, false, true},
                           Case{1, 1, kWireVersionOfCopies, true, true}}) {
    make({.shards = each.shards});
    ends->node.facts().copies = each.copies;
    ends->node.facts().is_spread = each.is_spread;
    Hello hello = RawPeer::hello();
    hello.version = each.version;
    RawPeer peer(ends->node.address());
    peer.send_frame(FrameKind::kHello, hello);
    HandshakeReader reader;
    ASSERT_TRUE(settle([&] { return peer.take_frame(reader); }));
    ASSERT_EQ(reader.kind(), each.is_let_in ? FrameKind::kChallenge : FrameKind::kRefused) << each.shards;
    if (each.is_let_in) continue;
    const Report refusal = refused_from_wire(test::needed(reader.frame<Refused>()));
    EXPECT_EQ(refusal.code, Code::kUnsupported);
    EXPECT_NE(refusal.what.find("routes keys by slot (kv.copies)"), std::string::npos) << refusal.what;
    EXPECT_EQ(refusal.next, "update the client");
  }
}

TEST_F(Hostile, who_does_not_finish_the_handshake_is_dropped_in_time) {
  make({.handshake_timeout_ns = 50 * kMillisecond_ns});
  RawPeer silent(ends->node.address());
  RawPeer halfway(ends->node.address());
  halfway.send_frame(FrameKind::kHello, RawPeer::hello());
  // One byte at a time, for ever.
  RawPeer loris(ends->node.address());
  const Hello hello = RawPeer::hello();
  const std::string_view bytes(reinterpret_cast<const char*>(&hello), sizeof(hello));
  loris.send_header({.bytes = sizeof(hello), .kind = FrameKind::kHello});
  size_t sent = 0;
  EXPECT_TRUE(settle([&] {
    if (sent + 1 < bytes.size() && !loris.has_ended()) loris.send(bytes.substr(sent++, 1));
    return loris.has_ended() && silent.has_ended() && halfway.take().empty() && halfway.has_ended();
  }));
  EXPECT_EQ(door().timed_out, 3u);
  EXPECT_EQ(ends->node.reception().handshakes(), 0u);
}

TEST_F(Hostile, handshakes_that_never_end_keep_nobody_out) {
  make({.handshakes_max = 8});
  std::vector<std::unique_ptr<RawPeer>> idlers;
  for (int i = 0; i < 50; ++i) idlers.push_back(std::make_unique<RawPeer>(ends->node.address()));
  ASSERT_TRUE(settle([&] { return door().accepted == 51; }));
  EXPECT_LE(ends->node.reception().handshakes(), 8u);
  EXPECT_EQ(door().dropped_oldest, 42u);
  RawPeer late(ends->node.address());
  EXPECT_TRUE(late.shake_hands(turn()));
}

TEST_F(Hostile, connections_beyond_the_maximum_are_told_so) {
  make({.connections_max = 2});
  RawPeer second = admitted();
  RawPeer third(ends->node.address());
  EXPECT_FALSE(third.shake_hands(turn()));
  EXPECT_EQ(door().refused, 1u);
  second.hang_up();
  EXPECT_TRUE(settle([&] { return ends->node.server().connections() == 1; }));
  RawPeer fourth = admitted();
}

TEST_F(Hostile, who_leaves_in_the_handshake_leaves_nothing_behind) {
  make();
  for (int i = 0; i < 10; ++i) {
    RawPeer peer(ends->node.address());
    if (i % 2 == 0) peer.send_frame(FrameKind::kHello, RawPeer::hello());
    i % 3 == 0 ? peer.reset() : peer.hang_up();
  }
  EXPECT_TRUE(settle([&] { return door().accepted == 11 && ends->node.reception().handshakes() == 0; }));
}

TEST_F(Hostile, without_descriptors_newcomers_wait_and_are_served_later) {
  make();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  RawPeer first(ends->node.address());
  // What is open stays open; nothing can be added.
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool failed = settle([&] { return door().accept_failed > 0; });
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(failed);
  EXPECT_TRUE(first.shake_hands(turn()));
}

// After it.

TEST_F(Hostile, frames_outside_kinds_and_limits_close_the_connection) {
  make();
  const FrameHeader nonsense[] = {
      {.bytes = 8, .kind = static_cast<FrameKind>(0)},
      {.bytes = 8, .kind = static_cast<FrameKind>(99)},
      {.bytes = 48, .kind = FrameKind::kHello},
      {.bytes = kMessageBytesMax + 1, .kind = FrameKind::kMessage},
      {.bytes = FrameHeader::kBytesMax, .kind = FrameKind::kMessage},
      {.bytes = 8, .kind = FrameKind::kMessage, .code = 3},
      {.bytes = 23, .kind = FrameKind::kRead},
      {.bytes = 15, .kind = FrameKind::kWrite},
      {.bytes = 24, .kind = FrameKind::kCompareSwap},
      {.bytes = 32, .kind = FrameKind::kFetchAdd},
      {.bytes = 0, .kind = FrameKind::kDone},
      {.bytes = 1, .kind = FrameKind::kGoodbye},
  };
  uint64_t count = 0;
  for (const FrameHeader& header : nonsense) {
    RawPeer peer = admitted();
    peer.send_header(header);
    EXPECT_TRUE(settle([&] { return peer.has_ended(); })) << count;
    EXPECT_EQ(counters().bad_frame, ++count);
  }
}

TEST_F(Hostile, answers_to_nothing_close_the_connection) {
  make();
  RawPeer done = admitted();
  done.send_header({.bytes = 8, .kind = FrameKind::kDone});
  done.send(std::string(8, '\0'));
  RawPeer data = admitted();
  data.send_header({.bytes = 64, .kind = FrameKind::kData});
  EXPECT_TRUE(settle([&] { return done.has_ended() && data.has_ended(); }));
  EXPECT_EQ(counters().bad_completion, 2u);
}

TEST_F(Hostile, half_a_frame_and_then_the_end_is_no_message) {
  make();
  for (const bool reset : {false, true}) {
    RawPeer peer = admitted();
    peer.send_header({.bytes = 100, .kind = FrameKind::kMessage});
    peer.send(std::string(50, 'x'));
    const size_t closed = ends->server->count(Op::kClosed);
    for (int i = 0; i < 100; ++i) ends->turn();
    reset ? peer.reset() : peer.hang_up();
    EXPECT_TRUE(settle([&] { return ends->server->count(Op::kClosed) == closed + 1; }));
  }
  EXPECT_EQ(ends->server->count(Op::kReceive), 0u);
}

TEST_F(Hostile, a_peer_that_closes_one_half_is_gone) {
  make();
  RawPeer peer = admitted();
  ASSERT_EQ(::shutdown(peer.fd(), SHUT_WR), 0);
  EXPECT_TRUE(settle([&] { return ends->server->count(Op::kClosed) == 1; }));
  EXPECT_TRUE(settle([&] { return peer.has_ended(); }));
}

TEST_F(Hostile, a_reset_in_the_middle_of_a_read_ends_it) {
  make();
  RawPeer peer = admitted();
  const TargetAndOperand read{{RemotePointer::at(1, 0).bits, key.bits}, region.size()};
  peer.send_header({.bytes = sizeof(read), .kind = FrameKind::kRead});
  peer.send({reinterpret_cast<const char*>(&read), sizeof(read)});
  ASSERT_TRUE(settle([&] { return !peer.take().empty(); }));
  ASSERT_LT(counters().bytes_sent, region.size()) << "the READ was over too soon for this test";
  peer.reset();
  EXPECT_TRUE(settle([&] { return ends->server->count(Op::kClosed) == 1; }));
}

TEST_F(Hostile, a_write_without_end_into_nothing_keeps_nobody_waiting) {
  make();
  RawPeer peer = admitted();
  const Target place{RemotePointer::at(1, 0).bits, key.bits ^ 1};
  peer.send_header({.bytes = FrameHeader::kBytesMax, .kind = FrameKind::kWrite});
  peer.send({reinterpret_cast<const char*>(&place), sizeof(place)});
  const std::vector<std::byte> before = region;
  for (int i = 0; i < 50; ++i) {
    (void)::send(peer.fd(), region.data(), 256 * 1024, MSG_NOSIGNAL | MSG_DONTWAIT);
    ends->turn();
  }
  expect_the_witness_is_served();
  EXPECT_TRUE(region == before);
}

// It asks and asks and never takes an answer. What it may cost is bounded, and the others feel nothing.
TEST_F(Hostile, a_client_that_never_reads_is_bounded_and_hurts_nobody) {
  make({.server = {.output_bytes_max = 4 * kMiB}});
  std::vector<RawPeer> peers;
  for (int i = 0; i < 8; ++i) peers.push_back(admitted());
  const std::string question = [] {
    const uint64_t header = FrameHeader{.bytes = 8, .kind = FrameKind::kMessage}.word();
    std::string frame(16, 'q');
    std::memcpy(frame.data(), &header, sizeof(header));
    std::string many;
    for (int i = 0; i < 256; ++i) many += frame;
    return many;
  }();
  const std::string answer(kMessageBytesMax, 'a');
  size_t largest = 0;
  for (int round = 0; round < 2'000; ++round) {
    for (const RawPeer& peer : peers) {
      (void)::send(peer.fd(), question.data(), question.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    ends->server->events.clear();
    ends->server->turn();
    for (const Received& each : ends->server->events) {
      if (each.completion.op != Op::kReceive) continue;
      const Request reply = send_of(answer);
      ASSERT_EQ(each.completion.channel->post({&reply, 1}), 1u) << "what is delivered can be answered";
    }
    largest = std::max(largest, ends->node.server().pending_bytes());
  }
  EXPECT_GT(largest, 4 * kMiB) << "the bound was never reached, so this says nothing";
  // The bound, and for each peer what one turn may deliver beyond it.
  EXPECT_LT(largest, 4 * kMiB + peers.size() * (kOutputBytesMax + 2 * kBlockBytes));
  const uint64_t sent = counters().bytes_sent;
  for (int i = 0; i < 100; ++i) ends->server->turn();
  EXPECT_EQ(counters().bytes_sent, sent) << "no peer takes anything";
  expect_the_witness_is_served();
}

// A false node that answers a READ with other lengths than asked for, or twice, or by an atomic's value.
TEST(HostileNode, answers_of_the_wrong_length_close_the_channel) {
  const auto listening = listen("127.0.0.1:0");
  ASSERT_TRUE(listening.has_value());
  std::array<std::byte, 128> local{};
  const auto frame = [](FrameHeader header, size_t bytes) {
    const uint64_t word = header.word();
    std::string text(reinterpret_cast<const char*>(&word), sizeof(word));
    return text + std::string(bytes, '\x55');
  };
  const std::string answers[] = {
      frame({.bytes = 65, .kind = FrameKind::kData}, 72),
      frame({.bytes = 63, .kind = FrameKind::kData}, 64),
      frame({.bytes = 0, .kind = FrameKind::kData}, 0),
      frame({.bytes = FrameHeader::kBytesMax, .kind = FrameKind::kData}, 1024),
      frame({.bytes = 8, .kind = FrameKind::kDone}, 8),
      frame({.bytes = 64, .kind = FrameKind::kData}, 64) + frame({.bytes = 64, .kind = FrameKind::kData}, 64),
  };
  for (const std::string& answer : answers) {
    const auto client = test::needed(ClientDomain::create());
    End end(*client);
    const auto channel = client->connect(test::needed(bound_address(listening->get())));
    ASSERT_TRUE(channel.has_value());
    int accepted = -1;
    const auto client_turn = [&] { end.turn(); };
    ASSERT_TRUE(settle_with(client_turn, [&] {
      accepted = ::accept4(listening->get(), nullptr, nullptr, SOCK_CLOEXEC);
      return accepted >= 0;
    }));
    RawPeer node{Descriptor(accepted)};
    HandshakeReader reader;
    ASSERT_TRUE(settle_with(client_turn, [&] { return node.take_frame(reader); }));
    node.send_frame(FrameKind::kChallenge,
                    Challenge{.version = kWireVersion, .secret_wanted = 0, .reserved = 0, .nonce = {}});
    reader.reset();
    ASSERT_TRUE(settle_with(client_turn, [&] { return node.take_frame(reader); }));
    node.send_frame(FrameKind::kWelcome,
                    Welcome{.mac = {}, .facts = facts_to_wire({.boot_id = {}, .socket_path = {}})});
    ASSERT_TRUE(settle_with(client_turn, [&] { return end.count(Op::kOpened) == 1; }));
    const Request read{.token = 1, .local = {local.data(), 64}, .remote = {}, .op = Op::kRead};
    ASSERT_EQ((*channel)->post({&read, 1}), 1u);
    node.send(answer);
    ASSERT_TRUE(settle_with(client_turn, [&] { return end.count(Op::kClosed) == 1; }));
    EXPECT_EQ(end.last(Op::kClosed)->value, 0u);
    EXPECT_EQ(end.count(Op::kRead), 1u) << "it completes once";
    EXPECT_EQ(client->counters().bad_completion, 1u);
    EXPECT_TRUE(std::all_of(local.begin() + 64, local.end(), [](std::byte each) {
      return each == std::byte{0};
    })) << "bytes beyond the READ's place";
  }
}

}  // namespace
}  // namespace refract::fabric::tcp
