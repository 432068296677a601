// SPDX-License-Identifier: Apache-2.0
// Many gets and puts at once, beyond the contract's claims: what they cost, and what becomes of them when the
// owner goes silent, the connection ends, or their caller drops them.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "refract/fabric/conformance/allocation_count.h"
#include "refract/kv/layout/many_wire.h"
#include "refract/kv/testing/test_service.h"

namespace refract::kv {
namespace {

using test::bytes_of;
using test::JumpingIdler;
using test::Served;

struct Many {
  explicit Many(size_t count) {
    for (size_t i = 0; i < count; ++i) keys.push_back("key" + std::to_string(i));
    values.resize(count);
    for (size_t i = 0; i < count; ++i) sinks.push_back(std::make_unique<StringSink>(values[i]));
  }
  [[nodiscard]] std::vector<RpcClient::PutItem> puts() const {
    std::vector<RpcClient::PutItem> items;
    for (const std::string& key : keys)
      items.push_back({.key = bytes_of(key), .value = bytes_of(key), .options = {}});
    return items;
  }
  [[nodiscard]] std::vector<RpcClient::GetItem> gets() const {
    std::vector<RpcClient::GetItem> items;
    for (size_t i = 0; i < keys.size(); ++i)
      items.push_back({.key = bytes_of(keys[i]), .sink = sinks[i].get()});
    return items;
  }

  std::vector<std::string> keys;
  std::vector<std::string> values;
  std::vector<std::unique_ptr<StringSink>> sinks;
};

TEST(CallBatch, a_thousand_items_allocate_no_more_than_a_hundred) {
  Served served;
  Served::Peer peer = served.connect();
  const auto allocations_of = [&](size_t count) {
    const Many many(count);
    auto puts = many.puts();
    auto gets = many.gets();
    const uint64_t before = allocation_count();
    served.wait(peer.client->multi_put(puts));
    served.wait(peer.client->multi_get(gets));
    const uint64_t after = allocation_count();
    EXPECT_TRUE(std::ranges::all_of(puts, [](const auto& item) { return item.result.has_value(); }));
    EXPECT_TRUE(std::ranges::all_of(gets, [](const auto& item) { return item.result.has_value(); }));
    EXPECT_EQ(many.values, many.keys);
    return after - before;
  };
  (void)allocations_of(1'000);
  const uint64_t hundred = allocations_of(100);
  EXPECT_LE(allocations_of(1'000), hundred);
}

TEST(CallBatch, two_batches_share_a_session_and_both_end) {
  Served served;
  Served::Peer peer = served.connect();
  const Many left(700);
  const Many right(900);
  auto left_puts = left.puts();
  auto right_puts = right.puts();
  served.shard.spawn(peer.client->multi_put(left_puts));
  served.shard.spawn(peer.client->multi_put(right_puts));
  ASSERT_TRUE(served.run_until([&] { return served.shard.gate().count() == 0; }));
  for (const auto& item : left_puts) EXPECT_EQ(item.result.code(), Code::kOk);
  for (const auto& item : right_puts) EXPECT_EQ(item.result.code(), Code::kOk);
}

TEST(CallBatch, a_connection_that_ends_leaves_nothing_in_doubt_that_was_not_sent) {
  size_t ended_early = 0;
  for (int turns = 0; turns < 40; ++turns) {
    Served served;
    Served::Peer peer = served.connect();
    Served::Peer other = served.connect();
    const Many many(600);
    auto puts = many.puts();
    served.shard.spawn(peer.client->multi_put(puts));
    for (int i = 0; i < turns; ++i) (void)served.shard.poll_once();
    peer.session->close();
    ASSERT_TRUE(served.run_until([&] { return served.shard.gate().count() == 0; }));
    auto gets = many.gets();
    served.wait(other.client->multi_get(gets));
    for (size_t i = 0; i < puts.size(); ++i) {
      const Code code = puts[i].result.code();
      ASSERT_TRUE(code == Code::kOk || code == Code::kIndeterminate || code == Code::kUnavailable)
          << static_cast<int>(code);
      if (code == Code::kOk) {
        ASSERT_EQ(gets[i].result.code(), Code::kOk) << "it was acknowledged";
      } else if (code == Code::kUnavailable) {
        ASSERT_EQ(gets[i].result.code(), Code::kNotFound) << "it was never sent";
      }
      ended_early += code == Code::kIndeterminate ? 1 : 0;
    }
  }
  EXPECT_GT(ended_early, 0U);
}

TEST(CallBatch, a_batch_that_nobody_wants_any_more_gives_its_credits_back) {
  Served served;
  Served::Peer peer = served.connect();
  for (int turns = 0; turns < 12; ++turns) {
    const Many many(500);
    auto gets = many.gets();
    runtime::Task<> reading = peer.client->multi_get(gets);
    reading.start();
    for (int i = 0; i < turns; ++i) (void)served.shard.poll_once();
    reading = {};
    served.settle();
  }
  const Many many(500);
  auto puts = many.puts();
  served.wait(peer.client->multi_put(puts));
  for (const auto& item : puts) ASSERT_EQ(item.result.code(), Code::kOk);
}

class Silent final : public fabric::Receiver {
 public:
  void on_messages(std::span<const fabric::Completion> messages) noexcept override {
    heard += messages.size();
  }
  size_t heard = 0;
};

TEST(CallBatch, an_owner_that_goes_silent_leaves_what_was_sent_in_doubt_and_the_rest_undone) {
  ManualClock clock;
  JumpingIdler idler(clock);
  runtime::Shard shard(clock, {.idler = &idler});
  fabric::LoopbackHub hub;
  fabric::LoopbackDomain near(hub, "near");
  fabric::LoopbackDomain far(hub, "far");
  idler.watch(near);
  idler.watch(far);
  Silent silent;
  const fabric::Dispatcher far_dispatcher(far, shard, &silent);
  const fabric::Dispatcher near_dispatcher(near, shard);
  const Reported<fabric::Channel*> channel = near.connect("far");
  ASSERT_TRUE(channel.has_value());
  rpc::Session session(**channel, shard);
  RpcClient client(session, shard, {.timeout_ns = kSecond_ns});
  ASSERT_TRUE(shard.run_until([&] { return session.state() == rpc::Session::State::kOpen; }, kSecond_ns));
  const Many many(300);
  auto puts = many.puts();
  runtime::block_on(shard, client.multi_put(puts));
  size_t in_doubt = 0;
  for (const auto& item : puts) {
    ASSERT_TRUE(item.result.code() == Code::kIndeterminate || item.result.code() == Code::kDeadlineExceeded);
    in_doubt += item.result.code() == Code::kIndeterminate ? 1 : 0;
  }
  EXPECT_EQ(in_doubt, silent.heard * wire::kKeysPerCall) << "exactly those that left";
  EXPECT_GT(in_doubt, 0U);
  auto gets = many.gets();
  runtime::block_on(shard, client.multi_get(gets));
  for (const auto& item : gets) ASSERT_EQ(item.result.code(), Code::kDeadlineExceeded);
  session.close();
  (void)shard.run_until([&] { return session.state() == rpc::Session::State::kClosed; }, kSecond_ns * 10);
}

}  // namespace
}  // namespace refract::kv
