// SPDX-License-Identifier: Apache-2.0
// The host dies under a node of three shards with `everysec`: of transactions over several shards each comes
// back whole or not at all, with everything that was acknowledged before it (docs/design/068).
//
// Method: everything is killed, and the folder's page is made that of another boot of the host. So the rings
// do not count, and each log ends where it was written last: up to a second ago, at another moment than the
// others.
#include "tests/process/host_death.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/node_process.h"
#include "tests/process/shard_link.h"

#include "refract/base/prng.h"

namespace refract::test {
namespace {

constexpr uint32_t kShards = 3;
constexpr uint32_t kWriters = 2;

uint64_t deaths() {
  const char* const wanted = std::getenv("REFRACT_HOST_DEATHS");
  return wanted == nullptr ? 8 : std::strtoull(wanted, nullptr, 10);
}

using Names = std::array<std::string, kShards>;  // Of keys, one in each shard.

// What one client does, one after the other: step n puts n under a key of one shard, by itself, then n under
// keys of two shards, at once, with one more and one less in two balances.
class Steps {
 public:
  Steps(uint32_t writer, const Node& node) {
    std::vector<std::unique_ptr<ShardLink>> shards;
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      shards.push_back(ShardLink::over_tcp(node.tcp_address() + "/" + std::to_string(shard)));
    }
    for (const char* const what : {"plain", "low", "high", "balance"}) {
      Names& names = names_[names_count_++];
      for (uint32_t shard = 0; shard < kShards; ++shard) {
        for (int i = 0; names[shard].empty(); ++i) {
          const std::string key = std::string(what) + " " + std::to_string(writer) + "/" + std::to_string(i);
          if (shards[shard]->put(key, "0")) names[shard] = key;
        }
      }
    }
  }

  // Until told to stop, or the node is gone.
  void work(Client client, const std::atomic<bool>& stops) {
    while (!stops) {
      const uint64_t step = ++step_;
      const std::string number = std::to_string(step);
      const auto [a, b] = pair_of(step);
      if (!client.put(plain(step % kShards), number)) return;
      Batch batch;
      batch.put(low(a), number).put(high(b), number).add(balance(a), 1).add(balance(b), -1);
      if (!client.commit(batch)) return;
    }
  }

  // Nothing, or what is wrong with what the node has.
  std::string judge(Client& client) {
    uint64_t newest = 0;
    int64_t sum = 0;
    for (uint32_t a = 0; a < kShards; ++a) {
      const uint64_t pair_low = number_of(client, low(a));
      const uint64_t pair_high = number_of(client, high((a + 1) % kShards));
      if (pair_low != pair_high) {
        return "of one pair " + std::to_string(pair_low) + " and " + std::to_string(pair_high);
      }
      newest = std::max(newest, pair_low);
      sum += static_cast<int64_t>(number_of(client, balance(a)));
    }
    if (sum != 0) return "the balances' sum is " + std::to_string(sum);
    for (uint64_t step = newest; step > 0 && step + kShards > newest; --step) {
      const uint64_t found = number_of(client, plain(step % kShards));
      if (found < step) {
        return "step " + std::to_string(newest) + " is there, and of what was put before only " +
               std::to_string(found) + " of " + std::to_string(step);
      }
    }
    lost_ += step_ - newest;
    return {};
  }
  [[nodiscard]] uint64_t steps() const noexcept { return step_; }
  [[nodiscard]] uint64_t lost() const noexcept { return lost_; }

 private:
  // The pairs are of keys of their own: 0 and 1, 1 and 2, 2 and 0.
  static std::pair<uint32_t, uint32_t> pair_of(uint64_t step) {
    const auto a = static_cast<uint32_t>(step % kShards);
    return {a, (a + 1) % kShards};
  }
  static uint64_t number_of(Client& client, const std::string& key) {
    const auto value = client.get(key);
    EXPECT_TRUE(value) << key;
    return value ? static_cast<uint64_t>(std::strtoll(value->c_str(), nullptr, 10)) : 0;
  }
  [[nodiscard]] const std::string& plain(uint64_t shard) const { return names_[0][shard]; }
  [[nodiscard]] const std::string& low(uint64_t shard) const { return names_[1][shard]; }
  [[nodiscard]] const std::string& high(uint64_t shard) const { return names_[2][shard]; }
  [[nodiscard]] const std::string& balance(uint64_t shard) const { return names_[3][shard]; }

  std::array<Names, 4> names_;
  size_t names_count_ = 0;
  uint64_t step_ = 0;
  uint64_t lost_ = 0;
};

class HostDeath : public testing::Test {
 protected:
  [[nodiscard]] std::string data() const { return folder_.path() + "/data"; }
  [[nodiscard]] NodeOptions options(bool has_snapshots) const {
    return {.arguments = {"--data-durability", "everysec", "--data-folder", data(), "--server-shards",
                          std::to_string(kShards), "--memory-limit", "384MiB", "--memory-initial", "24MiB",
                          "--listen-address", "127.0.0.1:0", "--data-snapshot-every",
                          has_snapshots ? "700ms" : "0ns"}};
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(HostDeath, halves_no_transaction_and_leaves_what_came_before_it) {
  std::vector<Steps> writers;
  Prng chance(static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed()) + 3);
  uint64_t cut = 0;
  uint64_t death = 0;
  // On a busy machine all logs may end at one step: then more deaths, until one has to be cut.
  for (;; ++death) {
    Node node(options(death % 2 == 1));
    ASSERT_TRUE(node.is_up()) << node.errors();
    const std::string said = node.output() + node.errors();
    for (size_t at = 0; (at = said.find("are left out", at)) != std::string::npos; ++at) ++cut;
    for (uint32_t i = 0; death == 0 && i < kWriters; ++i) writers.emplace_back(i, node);
    Client reader = node.connect();
    for (Steps& writer : writers) {
      ASSERT_EQ(writer.judge(reader), "") << "behind death " << death;
    }
    if (death >= deaths() && (cut > 0 || death >= 6 * deaths())) break;
    std::atomic<bool> stops = false;
    std::vector<std::thread> threads;
    for (Steps& writer : writers) {
      threads.emplace_back([&] { writer.work(node.connect({.timeout_ns = kSecond_ns / 2}), stops); });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1'100 + chance.below(900)));
    node.kill_everything();
    stops = true;
    for (std::thread& thread : threads) thread.join();
    ASSERT_NO_FATAL_FAILURE(boot_again(data()));
  }
  std::printf("%lu deaths; %lu and %lu steps, lost %lu and %lu; logs cut: %lu\n", death, writers[0].steps(),
              writers[1].steps(), writers[0].lost(), writers[1].lost(), cut);
  EXPECT_GT(cut, 0U) << "each log ended where all did: nothing was shown";
}

}  // namespace
}  // namespace refract::test
