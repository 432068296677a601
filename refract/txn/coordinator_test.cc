// SPDX-License-Identifier: Apache-2.0
// Transactions whose parts stand on entries that expire while other parts are waited for: of an owner that is
// both shards, over a session each, and whose clock moves by hand; and of owners that say what a test wants.
#include "refract/txn/coordinator.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/kv/testing/test_service.h"

namespace refract::txn {
namespace {

using kv::RpcBatch;
using kv::RpcBatchWrite;
using kv::RpcCondition;
using kv::test::bytes_of;
using refract::test::needed;

constexpr uint64_t kLease_ns = kMillisecond_ns;

// Keys that begin with "b" are shard 1's, all others shard 0's.
class Node final : public ShardAccess {
 public:
  [[nodiscard]] uint32_t shard_of(std::span<const std::byte> key) const noexcept override {
    return !key.empty() && key.front() == std::byte{'b'} ? 1 : 0;
  }
  [[nodiscard]] uint64_t node_of(uint32_t) const noexcept override { return 1; }
  [[nodiscard]] kv::TransactionCalls* at(uint32_t shard) noexcept override { return &links_[shard].calls; }
  [[nodiscard]] runtime::Task<bool> await(uint32_t, uint64_t) override { co_return true; }

  [[nodiscard]] kv::RpcClient& rpc() { return *links_[0].peer.client; }
  void put(std::string_view key, uint64_t ttl_ns = 0) {
    EXPECT_TRUE(rpc().put_and_wait(bytes_of(key), bytes_of("1"), {.ttl_ns = ttl_ns}));
  }
  [[nodiscard]] std::string get(std::string_view key) {
    std::string value;
    kv::StringSink sink(value);
    const Result<kv::Got> got = rpc().get_and_wait(bytes_of(key), sink);
    return got ? value : std::string(text(got.code()));
  }
  [[nodiscard]] uint64_t now_ns() { return served.shard.refresh_now(); }

  kv::test::Served served;

 private:
  struct Link {
    explicit Link(kv::test::Served& served) : peer(served.connect()), calls(*peer.session, served.shard) {}
    kv::test::Served::Peer peer;
    kv::TransactionCalls calls;
  };
  std::array<Link, 2> links_{Link(served), Link(served)};
};

// Another transaction, which has just begun and holds a key, so that older ones wait for it.
class Holder {
 public:
  Holder(Node& node, std::string_view key) : node_(node) {
    std::vector<RpcBatchWrite> writes{{.key = bytes_of(key), .value = bytes_of("2")}};
    RpcBatch batch{.conditions = {}, .writes = writes};
    kv::TransactionCalls& calls = *node_.at(0);
    name_ = needed(node_.served.wait(calls.begin(deadline())));
    EXPECT_TRUE(node_.served.wait(
        calls.prepare(batch, {.name = name_, .begun_ns = node_.now_ns() + 1, .deadline_ns = deadline()})));
  }
  // It gives up.
  void leave() {
    node_.at(0)->settle(name_);
    node_.served.settle();
  }

 private:
  [[nodiscard]] uint64_t deadline() const { return node_.now_ns() + kSecond_ns; }

  Node& node_;
  kv::TransactionName name_;
};

// Begins with what is asked for while `held` is held, and lets that key go when the time has passed.
Code run_while_time_passes(Node& node, RpcBatch& batch, std::string_view held, uint64_t passes_ns) {
  Coordinator::Terms terms;
  terms.effort.begun_ns = node.now_ns();
  terms.effort.refusals = Effort::kRefusals;  // One shard after the other.
  terms.deadline_ns = terms.effort.begun_ns + kSecond_ns;
  node.served.space.clock().advance_ns(kMicrosecond_ns);
  Holder holder(node, held);
  Coordinator coordinator(node, node.served.shard, batch, terms);
  std::optional<Code> code;
  const auto run = [](Coordinator& one, std::optional<Code>& ended) -> runtime::Task<> {
    const Result<> changed = co_await one.run();
    ended = changed.code();
  };
  runtime::Task<> task = run(coordinator, code);
  task.start();
  node.served.settle();
  EXPECT_EQ(code, std::nullopt) << "it waits for the key";
  node.served.space.clock().advance_ns(passes_ns);
  holder.leave();
  EXPECT_TRUE(node.served.run_until([&] { return code.has_value(); }));
  return *code;
}

TEST(Coordinator, decides_for_nothing_that_stands_on_what_has_expired) {
  for (const bool is_too_late : {false, true}) {
    Node node;
    node.put("a lease", kLease_ns);
    const std::vector<RpcCondition> conditions{{.key = bytes_of("a lease")}};
    std::vector<RpcBatchWrite> writes{{.key = bytes_of("a"), .value = bytes_of("3")},
                                      {.key = bytes_of("b"), .value = bytes_of("3")}};
    RpcBatch batch{.conditions = conditions, .writes = writes};
    // In this order the last shard is the home, and the first one has prepared before it decides.
    const Code code = run_while_time_passes(node, batch, "b", is_too_late ? kLease_ns : kLease_ns / 2);
    EXPECT_EQ(code, is_too_late ? Code::kConflict : Code::kOk);
    EXPECT_EQ(node.get("a lease"), is_too_late ? "not_found" : "1");
    EXPECT_EQ(node.get("a"), is_too_late ? "not_found" : "3");
    EXPECT_EQ(node.get("b"), is_too_late ? "not_found" : "3");
  }
}

// Owners that say what a test wants of the parts that they prepare, one after the other.
class ToldOwners final : public rpc::Service {
 public:
  void answer_through(rpc::Server& server) noexcept { server_ = &server; }
  void handle(std::span<const rpc::IncomingCall> calls) noexcept override {
    for (const rpc::IncomingCall& call : calls) handle(call);
  }
  void session_opened(rpc::SessionId) noexcept override {}
  void session_closed(rpc::SessionId) noexcept override {}

  using Held = kv::TransactionCalls::Held;
  std::deque<Held> held;
  std::optional<uint64_t> not_after_wall_ns;  // Of the decision.

 private:
  void handle(const rpc::IncomingCall& call) {
    using Method = kv::wire::TransactionMethod;
    const auto method = static_cast<Method>(call.header.method);
    if (method == Method::kWords) {
      const struct {
        kv::wire::WordsReply reply;
        kv::wire::GivenWord word;
      } words{.reply = {.generation = 7, .wall_ns = 1},
              .word = {.place = kv::DecisionPlace::of(0, Offset{64}).bits, .first = 1, .count = 9}};
      return server_->reply(call.from, Code::kOk, std::as_bytes(std::span(&words, 1)));
    }
    if (method != Method::kPrepare && method != Method::kDecide)
      return server_->reply(call.from, Code::kOk, {});
    std::span<const std::byte> body = call.payload;
    const auto request = kv::wire::take<kv::wire::PartRequest>(body);
    ASSERT_TRUE(request);
    struct {
      kv::wire::PartReply reply;
      std::array<kv::wire::WrittenOfBatch, 1> written;
    } answer{};
    answer.reply.batch.bytes = request->batch.writes * sizeof(kv::wire::WrittenOfBatch);
    if (method == Method::kDecide) {
      not_after_wall_ns = request->not_after_wall_ns;
    } else {
      EXPECT_EQ(request->not_after_wall_ns, 0U);
      answer.reply.looked_wall_ns = held.front().looked_wall_ns;
      answer.reply.expires_wall_ns = held.front().expires_wall_ns;
      held.pop_front();
    }
    const auto bytes = std::as_bytes(std::span(&answer, 1));
    server_->reply(call.from, Code::kOk, bytes.first(sizeof(answer.reply) + answer.reply.batch.bytes));
  }

  rpc::Server* server_ = nullptr;
};

// Three shards, all of them these owners.
class ToldNode final : public ShardAccess {
 public:
  ToldNode() {
    owners.answer_through(server_);
    idler_.watch(client_domain_);
    idler_.watch(server_domain_);
  }

  [[nodiscard]] uint32_t shard_of(std::span<const std::byte> key) const noexcept override {
    return std::to_integer<uint32_t>(key.front()) - '0';
  }
  [[nodiscard]] uint64_t node_of(uint32_t) const noexcept override { return 1; }
  [[nodiscard]] kv::TransactionCalls* at(uint32_t) noexcept override { return &calls_; }
  [[nodiscard]] runtime::Task<bool> await(uint32_t, uint64_t) override { co_return true; }

  [[nodiscard]] Code run(RpcBatch& batch) {
    const auto is_open = [this] { return session_.state() == rpc::Session::State::kOpen; };
    EXPECT_TRUE(shard_.run_until(is_open, shard_.refresh_now() + kSecond_ns));
    Coordinator coordinator(*this, shard_, batch,
                            {.effort = {}, .deadline_ns = shard_.refresh_now() + kSecond_ns});
    return runtime::block_on(shard_, coordinator.run()).code();
  }
  ToldOwners owners;

 private:
  [[nodiscard]] fabric::Channel& connect() {
    const Reported<fabric::Channel*> channel = client_domain_.connect("server");
    EXPECT_TRUE(channel);
    return **channel;
  }

  ManualClock clock_;
  kv::test::JumpingIdler idler_{clock_};
  runtime::Shard shard_{clock_, {.idler = &idler_}};
  fabric::LoopbackHub hub_;
  fabric::LoopbackDomain client_domain_{hub_, "client", {}};
  fabric::LoopbackDomain server_domain_{hub_, "server", {}};
  rpc::Server server_{owners, shard_};
  fabric::Dispatcher server_dispatcher_{server_domain_, shard_, &server_};
  fabric::Dispatcher client_dispatcher_{client_domain_, shard_};
  rpc::Session session_{connect(), shard_};
  kv::TransactionCalls calls_{session_, shard_};
};

TEST(Coordinator, tells_the_home_when_the_first_part_expires) {
  struct Case {
    std::array<uint64_t, 2> expires_wall_ns;
    uint64_t not_after_wall_ns;
  };
  for (const Case& one : {Case{{0, 0}, 0}, Case{{700, 0}, 700}, Case{{0, 800}, 800}, Case{{700, 800}, 700}}) {
    ToldNode node;
    for (const uint64_t expires : one.expires_wall_ns) node.owners.held.push_back({500, expires});
    std::vector<RpcBatchWrite> writes{{.key = bytes_of("0")}, {.key = bytes_of("1")}, {.key = bytes_of("2")}};
    RpcBatch batch{.conditions = {}, .writes = writes};
    EXPECT_EQ(node.run(batch), Code::kOk);
    EXPECT_EQ(node.owners.not_after_wall_ns, one.not_after_wall_ns);
  }
}

// What writes nothing has no decision: when the last part was looked at, nothing may have been over.
TEST(Coordinator, takes_nothing_for_read_together_that_never_stood_together) {
  struct Case {
    std::array<ToldOwners::Held, 2> held;
    Code code;
  };
  const std::array cases{Case{{{{500, 0}, {600, 0}}}, Code::kOk}, Case{{{{500, 601}, {600, 0}}}, Code::kOk},
                         Case{{{{500, 600}, {600, 0}}}, Code::kConflict},
                         Case{{{{600, 700}, {500, 600}}}, Code::kConflict},
                         Case{{{{500, 700}, {600, 650}}}, Code::kOk}};
  for (const Case& one : cases) {
    ToldNode node;
    node.owners.held.assign(one.held.begin(), one.held.end());
    const std::vector<RpcCondition> conditions{{.key = bytes_of("1")},
                                               {.key = bytes_of("2"), .kind = kv::ConditionKind::kAbsent}};
    RpcBatch batch{.conditions = conditions, .writes = {}};
    EXPECT_EQ(node.run(batch), one.code);
    EXPECT_EQ(batch.failed, one.code == Code::kOk ? 0U : conditions.size());
    EXPECT_EQ(node.owners.not_after_wall_ns, std::nullopt);
  }
}

}  // namespace
}  // namespace refract::txn
