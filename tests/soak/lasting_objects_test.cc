// SPDX-License-Identifier: Apache-2.0
// Nodes that share their objects and live long: programs that stay and check every answer, and programs that
// come and are killed, hundreds of them, while they make, hold, get from other nodes and remove. What the
// nodes take does not grow: descriptors, mappings, threads and memory.
//
// Method: the memory for objects is filled once, so that it grows no more. Behind a first time in which all
// that is taken once has been taken, moments are compared with moments later on.
//
//   lasting_objects_test                                    half a minute
//   REFRACT_OBJECT_SOAK_SECONDS=3600 lasting_objects_test   an hour
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "tests/cluster/shared_nodes.h"
#include "tests/network/node_use.h"
#include "tests/objects/object_load.h"
#include "tests/soak/flat_use.h"
#include "tests/soak/object_visitors.h"

#include "refract/base/clock.h"
#include "refract/base/prng.h"
#include "refract/base/testing/turns.h"
#include "refract/base/units.h"

namespace refract::test {
namespace {

constexpr size_t kVisitors = 4;
constexpr uint64_t kKillEvery_ms = 60;
constexpr uint64_t kSampleEvery_ns = 240 * kMillisecond_ns;

uint64_t soak_ns() {
  const char* const wanted = std::getenv("REFRACT_OBJECT_SOAK_SECONDS");
  return (wanted == nullptr ? turns(16, 16) : std::strtoull(wanted, nullptr, 10)) * kSecond_ns;
}

// What all servers, and all keepers, take at one moment.
struct Use {
  uint64_t server_bytes = 0;
  uint64_t server_shared_bytes = 0;
  uint64_t server_descriptors = 0;
  uint64_t server_mappings = 0;
  uint64_t server_threads = 0;
  uint64_t keeper_bytes = 0;
  uint64_t keeper_descriptors = 0;
  uint64_t keeper_mappings = 0;
};
// Of three nodes, whose visitors come and go: each has a handful of descriptors and mappings at a server and
// a keeper, its connection's memory, and what it lends. What leaks with calls, clients or pulls, of which
// there are thousands, hundreds and thousands, would be more before long.
const std::vector<Bound<Use>>& bounds() {
  static const std::vector<Bound<Use>> all = {
      {"servers' own memory", &Use::server_bytes, 0.1, 6 * kMiB + 3 * sanitizer_bytes()},
      {"servers' shared memory", &Use::server_shared_bytes, 0.05, 48 * kMiB},
      {"servers' descriptors", &Use::server_descriptors, 0, 60},
      {"servers' mappings", &Use::server_mappings, 0, 90},
      {"servers' threads", &Use::server_threads, 0, 6},
      {"keepers' own memory", &Use::keeper_bytes, 0.1, 3 * kMiB + 3 * sanitizer_bytes()},
      {"keepers' descriptors", &Use::keeper_descriptors, 0, 60},
      {"keepers' mappings", &Use::keeper_mappings, 0, 60},
  };
  return all;
}

class LastingObjects : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(nodes_.trouble_to_agree(), "");
    for (size_t i = 0; i < SharedNodes::kNodes; ++i) {
      visit_.addresses[2 * i] = nodes_.node(i).socket_path();
      visit_.addresses[2 * i + 1] = "tcp:" + nodes_.node(i).tcp_address();
      fill(i);
    }
  }
  // So that the node has all the memory that it will have.
  void fill(size_t node) {
    ObjectClient opened = nodes_.open(node);
    constexpr uint64_t kBytes = 16 * kMiB;
    for (uint64_t i = 0; i < 256 * kMiB / kBytes; ++i) {
      const std::string id = "filling " + std::to_string(node) + " " + std::to_string(i);
      ASSERT_TRUE(put_sealed(opened.objects, id, i, kBytes)) << opened.objects.trouble().to_string();
    }
    ASSERT_EQ(opened.objects.evict(UINT64_MAX).value_or(0), 256 * kMiB);
  }
  void start_all() {
    for (int maker = 0; maker < static_cast<int>(SharedNodes::kNodes); ++maker) {
      staying_.push_back(Process::run([this, maker] {
        return run_object_load(nodes_.node(static_cast<size_t>(maker)), {.is_tcp = maker == 1}, *ledger_,
                               maker);
      }));
    }
    for (size_t i = 0; i < kVisitors; ++i) visitors_.push_back(visitor());
  }
  [[nodiscard]] Process visitor() {
    visit_.seed = prng_.next();
    return Process::run([visit = visit_] { return visit_objects(visit); });
  }
  // Kills one after the other, and has another one come in its place.
  void kill_for(uint64_t ns, std::vector<Use>& moments) {
    const uint64_t until_ns = system_clock().now_ns() + ns;
    uint64_t sample_ns = 0;
    do {
      sleep_ms(kKillEvery_ms);
      for (Process& each : staying_) ASSERT_TRUE(each.is_running()) << "one that stays has ended";
      Process& next = visitors_[kills_++ % kVisitors];
      ASSERT_TRUE(next.is_running()) << "a visitor has ended by itself";
      next.kill_now();
      next = visitor();
      const uint64_t now_ns = system_clock().now_ns();
      if (now_ns < sample_ns) continue;
      moments.push_back(look());
      sample_ns = now_ns + kSampleEvery_ns;
    } while (system_clock().now_ns() < until_ns);
  }
  [[nodiscard]] Use look() {
    Use use;
    for (size_t i = 0; i < SharedNodes::kNodes; ++i) {
      const pid_t server = nodes_.node(i).server();
      const pid_t keeper = nodes_.node(i).keeper();
      use.server_bytes += private_bytes(server);
      use.server_shared_bytes += use_of(server).shared_bytes;
      use.server_descriptors += descriptors_of(server);
      use.server_mappings += mappings_of(server);
      use.server_threads += threads_of(server);
      use.keeper_bytes += private_bytes(keeper);
      use.keeper_descriptors += descriptors_of(keeper);
      use.keeper_mappings += mappings_of(keeper);
    }
    return use;
  }

  SharedNodes nodes_;
  SharedObjectLedger ledger_;
  Prng prng_{static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed())};
  ObjectVisit visit_;
  std::vector<Process> staying_;
  std::vector<Process> visitors_;
  uint64_t kills_ = 0;
};

TEST_F(LastingObjects, take_no_more_as_time_goes_by_whoever_is_killed) {
  const uint64_t all_ns = soak_ns();
  start_all();
  std::vector<Use> settling;
  std::vector<Use> before;
  std::vector<Use> after;
  ASSERT_NO_FATAL_FAILURE(kill_for(all_ns * 3 / 8, settling));
  ASSERT_NO_FATAL_FAILURE(kill_for(all_ns / 8, before));
  ASSERT_NO_FATAL_FAILURE(kill_for(all_ns * 3 / 8, settling));
  ASSERT_NO_FATAL_FAILURE(kill_for(all_ns / 8, after));
  expect_flat(std::span<const Bound<Use>>(bounds()), before, after);
  visitors_.clear();
  ledger_->stop = true;
  for (Process& each : staying_) EXPECT_EQ(each.wait(), 0);
  std::printf("%lu visitors killed beside %lu operations of those that stayed\n", kills_,
              ledger_.operations());
  EXPECT_GT(ledger_.operations(), 300U);

  for (size_t i = 0; i < SharedNodes::kNodes; ++i) {
    ObjectClient opened = nodes_.open(i);
    EXPECT_EQ(differences_of(opened.objects, *ledger_, static_cast<int>(i)), "");
  }
  for (size_t i = 0; i < SharedNodes::kNodes; ++i) {
    ObjectClient opened = nodes_.open(i);
    EXPECT_EQ(leak_after_removing_all(opened.objects), "") << nodes_.set().name(i);
  }
  // Of clients nothing is left.
  const Use crowded = middle_of(std::span<const Bound<Use>>(bounds()), before);
  EXPECT_TRUE(becomes_true([&] {
    const Use quiet = look();
    return quiet.server_descriptors <= crowded.server_descriptors &&
           quiet.keeper_descriptors <= crowded.keeper_descriptors;
  })) << look().server_descriptors
      << " and " << look().keeper_descriptors;
}

}  // namespace
}  // namespace refract::test
