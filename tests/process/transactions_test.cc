// SPDX-License-Identifier: Apache-2.0
// In which order a transaction asks its shards, as these count it, beside a part that was prepared by hand;
// and what becomes of parts whose client is killed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "tests/process/node_process.h"
#include "tests/process/shard_link.h"

#include "refract/base/testing/needed.h"
#include "refract/kv/calls/transaction_calls.h"
#include "refract/node/observe/watcher.h"

namespace refract::test::transactions_test {
namespace {

constexpr uint32_t kShards = 3;
constexpr uint64_t kRefusals = 8;  // txn::Effort

class OneShard {
 public:
  OneShard(const Node& node, uint32_t index)
      : link_(ShardLink::over_tcp(node.tcp_address() + "/" + std::to_string(index))) {}

  [[nodiscard]] uint64_t counted(std::string_view name) {
    const auto state = observe::Watcher(link_->session(), link_->shard(), kPatience_ns).state();
    if (!state) return UINT64_MAX;
    for (const auto& [counter, count] : state->counters) {
      if (counter == name) return count;
    }
    return UINT64_MAX;
  }
  [[nodiscard]] bool has(std::string_view key) { return link_->put(key, "0").has_value(); }
  // Of a transaction that has tried for a long time.
  [[nodiscard]] Code prepare(const kv::TransactionName& name, std::string_view key) {
    std::vector<kv::RpcBatchWrite> writes{{.key = std::as_bytes(std::span(key)),
                                           .kind = kv::WriteKind::kPut,
                                           .value = std::as_bytes(std::span(key))}};
    kv::RpcBatch batch{.conditions = {}, .writes = writes};
    const kv::TransactionCalls::Terms terms{
        .name = name, .begun_ns = 0, .deadline_ns = link_->shard().refresh_now() + kPatience_ns};
    return block_on(link_->shard(), calls_.prepare(batch, terms)).code();
  }
  [[nodiscard]] kv::TransactionName begin() {
    return needed(block_on(link_->shard(), calls_.begin(link_->shard().refresh_now() + kPatience_ns)));
  }

 private:
  std::unique_ptr<ShardLink> link_;
  kv::TransactionCalls calls_{link_->session(), link_->shard()};
};

// Until the part is settled, since others want its key, the transaction is refused again and again. At first
// by its home, which is the first shard, after the two others have prepared; in order by the first shard
// alone, which is asked first, and its home is the last one.
TEST(TransactionOrder, after_eight_refusals_the_shards_are_asked_one_by_one) {
  Node node({.arguments = {"--server-shards", std::to_string(kShards), "--listen-address", "127.0.0.1:0",
                           "--memory-limit", "384MiB"}});
  ASSERT_TRUE(node.is_up());
  std::array<OneShard, kShards> shards{OneShard(node, 0), OneShard(node, 1), OneShard(node, 2)};
  std::array<std::string, kShards> keys;
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    for (int i = 0; keys[shard].empty(); ++i) {
      const std::string key = "key " + std::to_string(i);
      if (shards[shard].has(key)) keys[shard] = key;
    }
  }
  Client client = node.connect();
  ASSERT_EQ(shards[0].prepare(shards[0].begin(), keys[0]), Code::kOk);
  Batch batch;
  for (const std::string& key : keys) batch.add(key, 1);
  ASSERT_TRUE(client.commit(batch));
  for (size_t i = 0; i < kShards; ++i) EXPECT_EQ(batch.sum(i), 1);

  const uint64_t refusals = shards[0].counted("transactions.conflicts");
  const bool was_in_order = refusals >= kRefusals;
  const uint64_t at_once = std::min(refusals, kRefusals) + (was_in_order ? 0 : 1);
  EXPECT_EQ(shards[1].counted("transactions.prepared"), at_once + (was_in_order ? 1 : 0)) << refusals;
  EXPECT_EQ(shards[2].counted("transactions.prepared"), at_once) << refusals;
  EXPECT_EQ(shards[was_in_order ? 2 : 0].counted("transactions.decided"), 1U) << refusals;
  EXPECT_EQ(shards[0].counted("transactions.overdue"), 1U);
  for (OneShard& shard : shards) EXPECT_EQ(shard.counted("transactions.waited"), 0U);
}

TEST(TransactionClients, that_are_killed_in_the_middle_hold_no_keys) {
  constexpr int kKills = 15;
  constexpr int kKillsMax = 150;
  Node node(
      {.arguments = {"--server-shards", "2", "--listen-address", "127.0.0.1:0", "--memory-limit", "256MiB"}});
  ASSERT_TRUE(node.is_up());
  std::array<OneShard, 2> shards{OneShard(node, 0), OneShard(node, 1)};
  const auto orphaned = [&] {
    return shards[0].counted("transactions.orphaned") + shards[1].counted("transactions.orphaned");
  };
  const auto add_to_all = [](Client& client, Batch& batch) {
    for (int i = 0; i < 8; ++i) batch.add("held " + std::to_string(i), 1);
    return client.commit(batch);
  };
  Client client = node.connect();
  // Until some have left parts.
  int kill = 0;
  for (; kill < kKills || (kill < kKillsMax && orphaned() == 0); ++kill) {
    const pid_t child = ::fork();
    if (child == 0) {
      Client own = node.connect();
      for (;;) {
        Batch batch;
        (void)add_to_all(own, batch);
      }
    }
    ::usleep(20'000 + static_cast<useconds_t>(kill % 15) * 1'000);
    send_signal(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    // Each key can be written, and all say the same.
    Batch batch;
    ASSERT_TRUE(add_to_all(client, batch));
    for (size_t i = 1; i < 8; ++i) EXPECT_EQ(batch.sum(i), batch.sum(0));
    ASSERT_TRUE(client.put("held 0", std::to_string(batch.sum(0))));
  }
  EXPECT_LT(kill, kKillsMax) << "none was killed in the middle: nothing was shown";
}

}  // namespace
}  // namespace refract::test::transactions_test
