// SPDX-License-Identifier: Apache-2.0
// Many gets and puts by chains at once: what leaves together, what it costs, and what goes to the owner. That
// each has the outcome that it would have alone is shown by conformance_stores_test.cc.
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "refract/kv/chains/chain_client.h"
#include "refract/kv/testing/test_service.h"
#include "refract/runtime/frame_pool.h"

namespace refract::kv {
namespace {

using runtime::FramePool;
using test::bytes_of;

class ManyByChains : public testing::Test {
 protected:
  static constexpr size_t kItems = 12;

  ManyByChains() {
    for (size_t i = 0; i < kItems; ++i) {
      keys.push_back("key " + std::to_string(i));
      EXPECT_TRUE(peer.client->put_and_wait(bytes_of(keys[i]), bytes_of("value " + std::to_string(i))));
    }
    EXPECT_EQ(served.wait(chains.attach()), Code::kOk);
  }

  struct Gets {
    explicit Gets(const std::vector<std::string>& keys, size_t count) : values(count) {
      for (size_t i = 0; i < count; ++i) {
        sinks.emplace_back(values[i]);
        items.push_back({.key = bytes_of(keys[i]), .sink = &sinks.back()});
      }
    }
    std::vector<std::string> values;
    std::deque<StringSink> sinks;
    std::vector<RpcClient::GetItem> items;
  };
  [[nodiscard]] std::vector<RpcClient::PutItem> puts(std::string_view value, size_t count = kItems) const {
    std::vector<RpcClient::PutItem> items;
    for (size_t i = 0; i < count; ++i) {
      items.push_back({.key = bytes_of(keys[i]), .value = bytes_of(value), .options = {}});
    }
    return items;
  }
  // Messages that the clients have sent, since the last time.
  [[nodiscard]] uint64_t sends() {
    const uint64_t count = served.counted.counts().requests_of(fabric::Op::kSend);
    served.counted.reset_counts();
    return count;
  }
  [[nodiscard]] static uint64_t frames() {
    const FramePool::Stats stats = FramePool::stats();
    return stats.hit_count + stats.heap_count;
  }
  // How many coroutines it takes to get so many.
  [[nodiscard]] uint64_t frames_of(size_t count) {
    Gets gets(keys, count);
    const uint64_t before = frames();
    served.wait(chains.multi_get(gets.items));
    for (const auto& item : gets.items) EXPECT_TRUE(item.result.has_value());
    return frames() - before;
  }

  test::Served served{{.link = {.message_bytes_max = 32 * 1024}}};
  test::Served::Peer peer = served.connect();
  ChainClient chains{*peer.client, served.shard};
  std::vector<std::string> keys;
};

TEST_F(ManyByChains, all_first_chains_leave_in_one_turn_and_are_all_where_the_slots_are_known) {
  Gets gets(keys, kItems);
  served.wait(chains.multi_get(gets.items));
  Gets again(keys, kItems);
  (void)sends();
  runtime::Task<> task = chains.multi_get(again.items);
  task.start();
  EXPECT_EQ(sends(), kItems) << "before any answer";
  ASSERT_TRUE(served.run_until([&] { return task.done(); }));
  EXPECT_EQ(sends(), 0u);
  for (size_t i = 0; i < kItems; ++i) {
    EXPECT_TRUE(again.items[i].result.has_value());
    EXPECT_EQ(again.values[i], "value " + std::to_string(i));
  }
  EXPECT_EQ(chains.counts().all_by_rpc(), 0u);
}

TEST_F(ManyByChains, a_get_of_many_costs_no_coroutine_of_its_own) {
  (void)frames_of(kItems);
  EXPECT_EQ(frames_of(kItems), frames_of(1));
}

TEST_F(ManyByChains, puts_of_known_slots_take_one_chain_each_and_their_versions_are_those_of_the_entries) {
  std::vector<RpcClient::PutItem> first = puts("first");
  served.wait(chains.multi_put(first));
  std::vector<RpcClient::PutItem> second = puts("second");
  (void)sends();
  served.wait(chains.multi_put(second));
  EXPECT_EQ(sends(), kItems);
  EXPECT_EQ(chains.counts().all_by_rpc(), 0u);
  for (size_t i = 0; i < kItems; ++i) {
    const auto entry = served.space.table().find(bytes_of(keys[i]));
    ASSERT_TRUE(entry.has_value());
    EXPECT_EQ(test::text_of(entry->value), "second");
    ASSERT_TRUE(second[i].result.has_value());
    EXPECT_EQ(entry->version, *second[i].result);
    EXPECT_GT(*second[i].result, *first[i].result);
  }
  EXPECT_TRUE(served.is_sound());
}

TEST_F(ManyByChains, what_only_the_owner_can_do_goes_there_once) {
  std::vector<RpcClient::PutItem> items = puts("value", 3);
  items[0].key = bytes_of("absent");
  items[1].options.ttl_ns = kSecond_ns;
  items[2].key = {};
  served.wait(chains.multi_put(items));
  EXPECT_TRUE(items[0].result.has_value());
  EXPECT_TRUE(items[1].result.has_value());
  EXPECT_EQ(items[2].result.code(), Code::kInvalidArgument);
  EXPECT_EQ(chains.counts().by_rpc[static_cast<size_t>(ByRpc::kAbsent)], 1u);
  EXPECT_EQ(chains.counts().by_rpc[static_cast<size_t>(ByRpc::kConditional)], 1u);
  EXPECT_EQ(chains.counts().all_by_rpc(), 2u);
}

TEST_F(ManyByChains, a_closed_session_leaves_puts_in_doubt_and_gets_without_an_answer) {
  std::vector<RpcClient::PutItem> first = puts("first");
  served.wait(chains.multi_put(first));
  std::vector<RpcClient::PutItem> items = puts("second");
  Gets gets(keys, kItems);
  runtime::Task<> put = chains.multi_put(items);
  put.start();
  runtime::Task<> get = chains.multi_get(gets.items);
  get.start();
  peer.session->close();
  ASSERT_TRUE(served.run_until([&] { return put.done() && get.done(); }));
  for (size_t i = 0; i < kItems; ++i) {
    EXPECT_EQ(items[i].result.code(), Code::kIndeterminate);
    EXPECT_EQ(gets.items[i].result.code(), Code::kUnavailable);
  }
}

}  // namespace
}  // namespace refract::kv
