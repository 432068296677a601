// SPDX-License-Identifier: Apache-2.0
// Transactions whose keys all others want: each of them ends.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/client/testing/test_node.h"
#include "refract/client/transactions/transaction.h"

namespace refract::progress_test {
namespace {

using test::needed;
using test::TestNode;

// Far from what a contended transaction takes, so that only one that never ends meets it.
constexpr TransactionOptions kLong{.timeout_ns = 60 * kSecond_ns};
constexpr int kEach = 60;

struct Setup {
  std::string name;
  int shards = 1;
  std::string durability = "none";
};

class HotKeys : public testing::TestWithParam<Setup> {
 protected:
  static std::string key(uint64_t i) { return "hot " + std::to_string(i); }

  const test::TemporaryFolder folder_;
  TestNode node_{flags(folder_.path())};

 private:
  static std::vector<std::string> flags(const std::string& folder) {
    const std::string shards = std::to_string(GetParam().shards);
    std::vector<std::string> flags{"--server-shards",  shards,
                                   "--listen-address", "127.0.0.1:0",
                                   "--memory-limit",   std::to_string(128 * GetParam().shards) + "MiB"};
    if (GetParam().durability == "none") return flags;
    flags.insert(flags.end(), {"--data-durability", GetParam().durability, "--data-folder", folder});
    return flags;
  }
};
INSTANTIATE_TEST_SUITE_P(All, HotKeys,
                         testing::Values(Setup{.name = "OneShard"}, Setup{.name = "Shards", .shards = 3},
                                         Setup{.name = "Logs", .shards = 3, .durability = "everysec"}),
                         [](const auto& setup) { return setup.param.name; });

// Two by shared memory and two over TCP, each of which reads and writes four of six keys, in an order of its
// own.
TEST_P(HotKeys, all_that_want_them_get_them) {
  Client client = node_.connect();
  for (uint64_t i = 0; i < 6; ++i) ASSERT_TRUE(client.put(key(i), "0"));
  std::atomic<int> committed = 0;
  const auto work = [&](int number) {
    Client own = TestNode::connect_to(number % 2 == 0 ? node_.socket() : "tcp:" + node_.tcp());
    Prng prng(static_cast<uint64_t>(number) + 1);
    for (int i = 0; i < kEach; ++i) {
      const uint64_t first = prng.below(6);
      const uint64_t step = number % 2 == 0 ? 1 : 5;
      const Result<> done = own.transaction(
          [&](Transaction& t) -> Result<> {
            for (uint64_t k = 0; k < 4; ++k) {
              const std::string name = key((first + k * step) % 6);
              const Result<std::string> value = t.get(name);
              if (!value) return fail(value.error());
              if (const auto put = t.put(name, std::to_string(std::stol(*value) + 1)); !put) return put;
            }
            return {};
          },
          kLong);
      committed += done ? 1 : 0;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(committed, 4 * kEach);
  int64_t sum = 0;
  for (uint64_t i = 0; i < 6; ++i) sum += std::stol(needed(client.get(key(i))));
  EXPECT_EQ(sum, 4 * 4 * kEach);
}

// Without reads, so that a batch only meets keys that are held: of those over several shards one waits, and
// those of one shard always do.
TEST_P(HotKeys, batches_that_read_nothing_are_all_made) {
  std::atomic<int> committed = 0;
  const auto work = [&](int number) {
    Client own = TestNode::connect_to(number % 2 == 0 ? node_.socket() : "tcp:" + node_.tcp());
    for (int i = 0; i < kEach; ++i) {
      Batch batch;
      if (number == 3) {
        batch.add(key(0), 1);
      } else {
        for (uint64_t k = 0; k < 6; ++k) batch.add(key(number % 2 == 0 ? k : 5 - k), 1);
      }
      committed += own.commit(batch) ? 1 : 0;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(committed, 4 * kEach);
  Client client = node_.connect();
  EXPECT_EQ(needed(client.get(key(0))), std::to_string(4 * kEach));
  EXPECT_EQ(needed(client.get(key(5))), std::to_string(3 * kEach));
}

// Between any two reads of these some key changes, so that they stand together only while they are held.
TEST_P(HotKeys, are_read_all_together_beside_writers_that_never_pause) {
  constexpr uint64_t kKeys = 200;
  constexpr uint64_t kAttempts = 40;
  Client client = node_.connect();
  for (uint64_t i = 0; i + 1 < kKeys; ++i) ASSERT_TRUE(client.put(key(i), "0"));
  std::atomic<bool> is_over = false;
  const auto write = [&](int number) {
    Client own = TestNode::connect_to(node_.socket());
    Prng prng(static_cast<uint64_t>(number) + 1);
    while (!is_over) {
      const uint64_t first = prng.below(kKeys);
      Batch batch;
      batch.add(key(first), -1).add(key((first + 1 + prng.below(kKeys - 1)) % kKeys), 1);
      (void)own.commit(batch);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back(write, i);
  for (const std::string& address : {node_.socket(), "tcp:" + node_.tcp()}) {
    Client own = TestNode::connect_to(address);
    for (int i = 0; i < 3; ++i) {
      uint64_t attempts = 0;
      int64_t sum = 1;
      const Result<> read = own.read_only(
          [&](Transaction& t) -> Result<> {
            ++attempts;
            sum = 0;
            for (uint64_t k = 0; k < kKeys; ++k) {
              const Result<std::string> value = t.get(key(k));
              if (!value && value.code() != Code::kNotFound) return fail(value.error());
              sum += value ? std::stol(*value) : 0;
            }
            return {};
          },
          kLong);
      EXPECT_TRUE(read) << text(read.code());
      EXPECT_EQ(sum, 0);
      EXPECT_LE(attempts, kAttempts) << address;
    }
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace refract::progress_test
