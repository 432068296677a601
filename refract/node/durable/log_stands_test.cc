// SPDX-License-Identifier: Apache-2.0
// What shards tell each other of their logs: where they stand, when one is stuck, and when what a snapshot
// has may count.
#include "refract/node/durable/log_stands.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "refract/base/check.h"
#include "refract/base/clock.h"
#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/storage/testing/simulated_disk.h"

namespace refract::node::log_stands_test {
namespace {

using storage::Durability;
using storage::LogStand;
using storage::ShardLog;
using Verdict = LogStands::Verdict;
using test::needed;

class Stands : public testing::Test {
 protected:
  void begin(Durability durability = Durability::kEverySecond, bool has_something = false) {
    clock_.set_now_ns(kSecond_ns);
    stands_ = std::make_unique<LogStands>(2, durability);
    for (uint32_t shard = 0; shard < 2; ++shard) {
      storage::ShardLogSpec spec{.log = {.store = {std::byte{7}}, .shard = shard, .shard_count = 2},
                                 .ring_bytes = storage::kRingBytesMin,
                                 .disk = &disks_[shard],
                                 .clock = &clock_};
      spec.options.durability = durability;
      logs_[shard] = needed(ShardLog::open(spec));
      const storage::LogReading reading = needed(logs_[shard]->read({}, [](const storage::Record&) {}));
      REFRACT_CHECK(logs_[shard]->begin(reading).has_value());
    }
    if (has_something) {
      logs_[1]->append({.stamp = ++stamp_,
                        .key = std::as_bytes(std::span("key")),
                        .value = std::as_bytes(std::span("value"))});
    }
    std::thread other([&] { stands_->join(1, *logs_[1]); });
    stands_->join(0, *logs_[0]);
    other.join();
  }
  void put(uint32_t shard) {
    logs_[shard]->append({.stamp = ++stamp_,
                          .key = std::as_bytes(std::span("key")),
                          .value = std::as_bytes(std::span("value"))});
    stands_->note(shard, *logs_[shard]);
  }
  LogStands::Verdict judge(uint32_t shard, const std::vector<LogStand>& moment, uint64_t waited_ns = 0) {
    return stands_->judge(
        {.shard = shard, .log_position = moment[shard].position, .stands = moment, .waited_ns = waited_ns});
  }
  void fail(uint32_t shard) {
    put(shard);
    disks_[shard].fail_next_syncs(1);
    EXPECT_FALSE(logs_[shard]->drain());
    stands_->note_state(shard, *logs_[shard]);
  }

  storage::SimulatedDisk disks_[2] = {storage::SimulatedDisk({}), storage::SimulatedDisk({})};
  ManualClock clock_;
  std::unique_ptr<ShardLog> logs_[2];
  std::unique_ptr<LogStands> stands_;
  uint64_t stamp_ = 0;
};

TEST_F(Stands, say_where_each_log_ends_and_up_to_where_it_is_on_the_disk) {
  begin();
  const uint64_t before = stands_->of(1).position;
  put(1);
  EXPECT_GT(stands_->of(1).position, before);
  EXPECT_EQ(stands_->of(1).synced, before);
  EXPECT_TRUE(logs_[1]->drain());
  put(1);
  EXPECT_GT(stands_->of(1).synced, before);
  EXPECT_EQ(stands_->all().size(), 2U);
}

TEST_F(Stands, let_a_snapshot_count_when_the_other_logs_have_synced) {
  begin();
  put(0);
  EXPECT_EQ(judge(0, stands_->all()), Verdict::kCounts) << "its own log does not matter";
  put(1);
  const std::vector<LogStand> moment = stands_->all();
  EXPECT_EQ(judge(0, moment, kForever_ns), Verdict::kWaits) << "it will, however long that takes";
  EXPECT_TRUE(logs_[1]->drain());
  put(1);
  EXPECT_EQ(judge(0, moment), Verdict::kCounts) << "what came behind the moment does not matter";
}

TEST_F(Stands, are_stuck_while_a_log_has_failed) {
  begin();
  EXPECT_FALSE(stands_->is_any_stuck());
  fail(1);
  EXPECT_TRUE(stands_->is_any_stuck());
  const std::vector<LogStand> moment = stands_->all();
  EXPECT_EQ(judge(0, moment, kForever_ns), Verdict::kWaits) << "its own snapshot will mend it";
  EXPECT_EQ(judge(1, moment), Verdict::kCounts) << "which waits for logs that work alone";
}

TEST_F(Stands, let_snapshots_of_failed_logs_count_at_about_one_moment) {
  begin();
  const std::vector<LogStand> early = stands_->all();
  fail(0);
  EXPECT_EQ(judge(1, early), Verdict::kCounts) << "there was nothing in the other log";
  stands_->end_wait(1);
  fail(1);
  EXPECT_EQ(judge(1, early), Verdict::kIsUseless) << "it cannot mend what has failed behind it";
  const std::vector<LogStand> moment = stands_->all();
  EXPECT_EQ(judge(0, moment), Verdict::kWaits);
  EXPECT_EQ(judge(1, moment), Verdict::kCounts) << "the other one is written, too";
  EXPECT_EQ(judge(0, moment), Verdict::kCounts);
  stands_->end_wait(1);
  EXPECT_EQ(judge(0, moment), Verdict::kWaits);
}

// A server with `always` behind one with everysec.
TEST_F(Stands, are_stuck_until_what_the_ring_had_at_the_start_is_on_the_disk) {
  begin(Durability::kAlways, /*has_something=*/true);
  EXPECT_FALSE(stands_->is_any_stuck());
  disks_[1].fail_next_syncs(1);
  EXPECT_FALSE(logs_[1]->drain());
  stands_->note_state(1, *logs_[1]);
  EXPECT_TRUE(stands_->is_any_stuck());
}

TEST_F(Stands, are_not_stuck_by_a_failed_log_where_each_change_is_synced) {
  begin(Durability::kAlways);
  EXPECT_FALSE(stands_->are_needed());
  fail(1);
  EXPECT_FALSE(stands_->is_any_stuck());
}

TEST_F(Stands, are_stuck_while_a_log_has_no_room) {
  begin();
  disks_[1].set_capacity(0);
  put(1);
  // A segment is made already; it is filled first.
  const std::string value(60'000, 'v');
  while (logs_[1]->state() == storage::LogState::kRunning) {
    if (logs_[1]->room_for(3, value.size()) == ShardLog::Room::kYes) {
      logs_[1]->append({.stamp = ++stamp_,
                        .key = std::as_bytes(std::span("key")),
                        .value = std::as_bytes(std::span(value))});
    }
    (void)logs_[1]->step();
    clock_.advance_ns(kSecond_ns);
  }
  stands_->note(1, *logs_[1]);
  stands_->note_state(1, *logs_[1]);
  EXPECT_TRUE(stands_->is_any_stuck());
  const std::vector<LogStand> moment = stands_->all();
  EXPECT_EQ(judge(0, moment, 4 * kSecond_ns), Verdict::kWaits);
  EXPECT_EQ(judge(0, moment, 5 * kSecond_ns), Verdict::kCounts) << "the snapshot may be what gives it room";
}

}  // namespace
}  // namespace refract::node::log_stands_test
