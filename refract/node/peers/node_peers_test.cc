// SPDX-License-Identifier: Apache-2.0
// Members of a cluster in one process, each with sockets of its own, and the sessions to them. Nothing
// asserts that something is fast; pauses are only shown to be long enough.
#include "refract/node/peers/node_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <map>
#include <string>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/log.h"
#include "refract/base/testing/needed.h"
#include "refract/fabric/tcp/listen.h"
#include "refract/fabric/tcp/reception.h"
#include "refract/rpc/server.h"

namespace refract::node::node_peers_test {
namespace {

using fabric::tcp::Reception;
using fabric::tcp::Role;
using fabric::tcp::Secret;
using fabric::tcp::ServerDomain;
using testing::HasSubstr;

// Only something broken ever waits for so long.
constexpr uint64_t kPatience_ns = 60 * kSecond_ns;

Secret secret_of(std::string_view text) {
  return test::needed(Secret::copy_of(std::as_bytes(std::span(text))));
}

// Method 1 is answered by the shard's number and the caller's role, anything else never.
class Mirror final : public rpc::Service {
 public:
  explicit Mirror(uint32_t shard_index) : shard_index_(shard_index) {}
  void answer_through(rpc::Server& server) { server_ = &server; }
  void handle(std::span<const rpc::IncomingCall> calls) noexcept override {
    for (const rpc::IncomingCall& call : calls) {
      if (call.header.method != 1) continue;
      const Role role = ServerDomain::role_of(*server_->channel(call.from.session));
      const std::array<uint32_t, 2> answer = {shard_index_, static_cast<uint32_t>(role)};
      server_->reply(call.from, Code::kOk, std::as_bytes(std::span(answer)));
    }
  }

 private:
  uint32_t shard_index_;
  rpc::Server* server_ = nullptr;
};

struct MemberOptions {
  const Secret* cluster_secret = nullptr;
  uint32_t key_shards = 1;
  bool has_objects = true;
};

// A node as others see it.
class FarNode {
 public:
  FarNode(runtime::Shard& shard, const MemberOptions& options) : shard_(shard), options_(options) {
    listening_ = test::needed(fabric::tcp::listen("127.0.0.1:0"));
    port_ = test::needed(fabric::tcp::bound_port(listening_.get()));
    start();
  }
  ~FarNode() { kill_server(); }
  FarNode(const FarNode&) = delete;
  FarNode& operator=(const FarNode&) = delete;

  void start() {
    ++incarnation_;
    const uint32_t count = options_.key_shards + (options_.has_objects ? 1 : 0);
    for (uint32_t i = 0; i < count; ++i) {
      served_.push_back(std::make_unique<Served>(shard_, i));
      rows_.push_back(served_.back()->domain.get());
    }
    reception_ = test::needed(Reception::create(
        shard_, {.listen_fd = listening_.get(),
                 .cluster_secret = options_.cluster_secret,
                 .shards = rows_,
                 .facts =
                     [this](uint32_t index) {
                       return fabric::tcp::NodeFacts{.identity = {port_, 1},
                                                     .incarnation = incarnation_,
                                                     .shard_index = index,
                                                     .shard_count = options_.key_shards,
                                                     .boot_id = {},
                                                     .socket_path = {}};
                     },
                 .no_further_shard = {Code::kUnsupported, "this node has no objects", ""}}));
  }
  // The backlog remains, as the keeper's does.
  void kill_server() {
    reception_.reset();
    served_.clear();
    rows_.clear();
  }
  void stop() {
    kill_server();
    listening_ = Descriptor();
  }
  void set_key_shards(uint32_t count) { options_.key_shards = count; }

  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] cluster::Member as(const std::string& name, const std::string& host = "127.0.0.1") const {
    return {.name = name, .host = host, .port = port_};
  }
  // At its last shard.
  [[nodiscard]] size_t sessions() const { return served_.back()->server.session_count(); }
  [[nodiscard]] const Reception::Counters& door() const { return reception_->counters(); }

 private:
  struct Served {
    Served(runtime::Shard& shard, uint32_t index)
        : domain(test::needed(ServerDomain::create())),
          mirror(index),
          server(mirror, shard),
          dispatcher(*domain, shard, &server) {
      mirror.answer_through(server);
    }
    std::unique_ptr<ServerDomain> domain;
    Mirror mirror;
    rpc::Server server;
    fabric::Dispatcher dispatcher;
  };

  runtime::Shard& shard_;
  MemberOptions options_;
  Descriptor listening_;
  uint16_t port_ = 0;
  uint64_t incarnation_ = 0;
  std::vector<std::unique_ptr<Served>> served_;
  std::vector<ServerDomain*> rows_;
  std::unique_ptr<Reception> reception_;
};

struct Log final : cluster::Peers::Watcher {
  void peer_opened(const std::string& name, rpc::Session& session) noexcept override {
    EXPECT_FALSE(sessions.contains(name)) << name << " is opened twice";
    sessions[name] = &session;
    told += "+" + name;
    if (on_opened) on_opened();
  }
  void peer_closed(const std::string& name, rpc::Session& session) noexcept override {
    ASSERT_TRUE(sessions.contains(name)) << name << " is closed and was not open";
    EXPECT_EQ(sessions[name], &session);
    EXPECT_NE(session.state(), rpc::Session::State::kOpen);
    sessions.erase(name);
    told += "-" + name;
    if (peers != nullptr) peers->let_go(session);
  }
  NodePeers* peers = nullptr;
  std::map<std::string, rpc::Session*> sessions;
  std::string told;
  std::function<void()> on_opened;
};

class NodePeersTest : public testing::Test {
 protected:
  NodePeersTest() { set_log_level(LogLevel::kError); }
  ~NodePeersTest() override { set_log_level(LogLevel::kInfo); }

  [[nodiscard]] std::unique_ptr<FarNode> far_node(uint32_t key_shards = 1) {
    return std::make_unique<FarNode>(shard_,
                                     MemberOptions{.cluster_secret = &secret_, .key_shards = key_shards});
  }
  void reach(std::vector<cluster::Member> members) {
    members.push_back({.name = "me", .host = "127.0.0.1", .port = 1});
    std::ranges::sort(members, {}, &cluster::Member::name);
    peers_.reach({.version = ++version_, .members = std::move(members)}, "me", log_);
  }
  [[nodiscard]] bool becomes(const std::function<bool()>& done) {
    return shard_.run_until(done, shard_.refresh_now() + kPatience_ns);
  }
  [[nodiscard]] bool is_told(const std::string& what) {
    return becomes([&] { return log_.told == what; });
  }
  // "2 as node": which shard answers, and what it takes the caller for.
  [[nodiscard]] std::string answer_of(const std::string& name) {
    const auto at = log_.sessions.find(name);
    if (at == log_.sessions.end()) return "no session";
    const auto reply = at->second->call_and_wait({.method = 1}, shard_.refresh_now() + kPatience_ns);
    std::array<uint32_t, 2> words{};
    if (reply.code != Code::kOk || reply.bytes.size() != sizeof(words)) return "no answer";
    std::memcpy(words.data(), reply.bytes.data(), sizeof(words));
    return std::to_string(words[0]) + (words[1] == 1 ? " as node" : " as client");
  }
  [[nodiscard]] std::string trouble_of(const std::string& name) { return peers_.trouble(name).to_string(); }
  [[nodiscard]] bool has_trouble(const std::string& name, const std::string& words) {
    return becomes([&] { return trouble_of(name).find(words) != std::string::npos; });
  }

  const Secret secret_ = secret_of("what the nodes know");
  runtime::Shard shard_{system_clock()};
  Log log_;
  NodePeers peers_{shard_, secret_};
  uint64_t version_ = 0;
};

TEST_F(NodePeersTest, joins_each_other_member_at_its_objects_shard_in_the_node_role) {
  const auto a = far_node(1);
  const auto b = far_node(3);
  reach({a->as("a"), b->as("b")});
  ASSERT_TRUE(becomes([&] { return log_.sessions.size() == 2; })) << trouble_of("a") << trouble_of("b");
  EXPECT_EQ(answer_of("a"), "1 as node");
  EXPECT_EQ(answer_of("b"), "3 as node");
  EXPECT_EQ(peers_.trouble("a").code, Code::kOk);
  EXPECT_EQ(peers_.trouble("me").code, Code::kNotFound);
  EXPECT_EQ(peers_.trouble("stranger").code, Code::kNotFound);
  // Nothing is left of the questions to the first shards.
  EXPECT_EQ(a->sessions(), 1u);
  EXPECT_EQ(b->sessions(), 1u);
}

TEST_F(NodePeersTest, joins_again_whatever_became_of_the_server_and_calls_under_way_end_before_it_is_told) {
  const auto b = far_node();
  reach({b->as("b")});
  std::string told = "+b";
  ASSERT_TRUE(is_told(told)) << trouble_of("b");
  for (uint32_t key_shards = 2; key_shards < 6; ++key_shards) {
    rpc::Session& session = *log_.sessions.at("b");
    const uint64_t never_answered = session.start({.method = 2});
    ASSERT_NE(never_answered, 0u);
    b->kill_server();
    b->set_key_shards(key_shards);
    ASSERT_TRUE(is_told(told += "-b"));
    // The session stays for this turn.
    EXPECT_TRUE(session.done(never_answered));
    EXPECT_EQ(session.finish(never_answered).code, Code::kIndeterminate);
    EXPECT_THAT(trouble_of("b"), HasSubstr("node b: "));
    EXPECT_EQ(peers_.trouble("b").code, Code::kUnavailable);
    b->start();
    ASSERT_TRUE(is_told(told += "+b")) << trouble_of("b");
    EXPECT_EQ(answer_of("b"), std::to_string(key_shards) + " as node");
  }
}

TEST_F(NodePeersTest, says_why_there_is_no_session) {
  const Secret other = secret_of("what others know");
  FarNode wrong(shard_, {.cluster_secret = &other});
  FarNode open(shard_, {.cluster_secret = nullptr});
  FarNode without_objects(shard_, {.cluster_secret = &secret_, .has_objects = false});
  const auto stopped = far_node();
  stopped->stop();
  const auto well = far_node();
  reach({wrong.as("a"), open.as("b"), without_objects.as("c"), stopped->as("d"),
         well->as("e", "no-such-host.invalid"), well->as("f")});
  EXPECT_TRUE(has_trouble("a", "node a: ")) << trouble_of("a");
  EXPECT_TRUE(has_trouble("a", "cluster secret is not this node's")) << trouble_of("a");
  EXPECT_EQ(peers_.trouble("a").code, Code::kAccessDenied);
  EXPECT_THAT(trouble_of("a"), HasSubstr("cluster.secret_file"));
  EXPECT_TRUE(has_trouble("b", "no cluster secret")) << trouble_of("b");
  EXPECT_TRUE(has_trouble("c", "no objects")) << trouble_of("c");
  EXPECT_TRUE(has_trouble("d", "Connection refused")) << trouble_of("d");
  EXPECT_TRUE(has_trouble("e", "cannot find host 'no-such-host.invalid'")) << trouble_of("e");
  // One that is well is not kept from its session by the others.
  EXPECT_TRUE(becomes([&] { return log_.sessions.contains("f"); }));
  EXPECT_EQ(log_.told, "+f");
}

TEST_F(NodePeersTest, takes_a_host_by_name_and_tries_each_of_its_addresses) {
  const auto b = far_node();
  // Often ::1 first, at which nothing listens.
  reach({b->as("b", "localhost")});
  ASSERT_TRUE(is_told("+b")) << trouble_of("b");
  EXPECT_EQ(answer_of("b"), "1 as node");
}

TEST_F(NodePeersTest, follows_the_list) {
  const auto a = far_node();
  const auto b = far_node();
  const auto c = far_node(2);
  reach({a->as("a"), b->as("b")});
  ASSERT_TRUE(becomes([&] { return log_.sessions.size() == 2; }));
  rpc::Session* const session_of_a = log_.sessions.at("a");
  log_.told.clear();

  reach({a->as("a"), b->as("b")});
  reach({a->as("a"), c->as("b")});  // Another address.
  ASSERT_TRUE(is_told("-b+b")) << trouble_of("b");
  EXPECT_EQ(answer_of("b"), "2 as node");
  EXPECT_TRUE(becomes([&] { return b->sessions() == 0; }));
  EXPECT_EQ(log_.sessions.at("a"), session_of_a) << "it was no matter of a's";

  log_.told.clear();
  reach({a->as("a"), b->as("d")});  // One is gone, one is new.
  ASSERT_TRUE(becomes([&] { return log_.told.size() == 4; }));
  EXPECT_THAT(log_.told, testing::AnyOf("-b+d", "+d-b"));
  EXPECT_EQ(peers_.trouble("b").code, Code::kNotFound);
  EXPECT_TRUE(becomes([&] { return c->sessions() == 0; }));

  log_.told.clear();
  reach({a->as("a")});
  reach({a->as("a"), b->as("d")});  // Back before its end was seen.
  ASSERT_TRUE(is_told("-d+d"));
  EXPECT_EQ(answer_of("d"), "1 as node");
  reach({});
  ASSERT_TRUE(becomes([&] { return log_.sessions.empty(); }));
}

TEST_F(NodePeersTest, may_be_told_of_another_list_in_the_middle_of_the_news) {
  const auto a = far_node();
  const auto b = far_node();
  log_.on_opened = [&] {
    if (log_.told == "+a") reach({b->as("b")});
  };
  reach({a->as("a")});
  ASSERT_TRUE(becomes([&] { return log_.told.size() == 6; }));
  EXPECT_THAT(log_.told, testing::AnyOf("+a-a+b", "+a+b-a"));
  EXPECT_EQ(answer_of("b"), "1 as node");
}

// A listener that hangs up. What begins behind its end comes behind the pause, however late this test looks.
TEST_F(NodePeersTest, pauses_longer_after_each_failure_up_to_a_bound) {
  const Descriptor listening = test::needed(fabric::tcp::listen("127.0.0.1:0"));
  const cluster::Member absent = {
      .name = "b", .host = "127.0.0.1", .port = test::needed(fabric::tcp::bound_port(listening.get()))};
  uint64_t hung_up_ns = 0;
  constexpr uint64_t kFirst_ns = 20 * kMillisecond_ns;
  reach({absent});
  for (int attempt = 0; attempt < 9; ++attempt) {
    Descriptor accepted;
    ASSERT_TRUE(becomes([&] {
      accepted = Descriptor(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      return static_cast<bool>(accepted);
    }));
    const uint64_t now_ns = system_clock().now_ns();
    if (attempt > 0) {
      const uint64_t pause_ns = std::min(kFirst_ns << (attempt - 1), 2 * kSecond_ns);
      EXPECT_GE(now_ns - hung_up_ns, pause_ns / 2) << attempt;
    }
    hung_up_ns = system_clock().now_ns();
  }
}

TEST_F(NodePeersTest, costs_no_wake_up_while_sessions_stand_and_few_while_members_are_away) {
  const auto a = far_node();
  const auto b = far_node();
  reach({a->as("a"), b->as("b")});
  ASSERT_TRUE(becomes([&] { return log_.sessions.size() == 2; }));
  const auto sleeps_in = [&](uint64_t ns) {
    const uint64_t before = shard_.sleep_count();
    (void)shard_.run_until([] { return false; }, shard_.refresh_now() + ns);
    return shard_.sleep_count() - before;
  };
  (void)sleeps_in(50 * kMillisecond_ns);
  EXPECT_LE(sleeps_in(500 * kMillisecond_ns), 2u) << "one that ends with the time";

  b->stop();
  ASSERT_TRUE(becomes([&] { return !log_.sessions.contains("b"); }));
  // 20 ms and its doublings are 2.6 s at most before the longest pause, which is a second at least.
  (void)sleeps_in(2'600 * kMillisecond_ns);
  // A failed attempt is a wake-up for the timer and one for the refusal, or two.
  EXPECT_LE(sleeps_in(kSecond_ns), 6u);
}

}  // namespace
}  // namespace refract::node::node_peers_test
