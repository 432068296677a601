// SPDX-License-Identifier: Apache-2.0
// What shards tell each other of their logs: where they stand, when one is stuck, and when what a snapshot has
// may count.
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

namespace refract::node {
namespace {

using storage::Durability;
using storage::LogStand;
using storage::ShardLog;
using test::needed;

class Stands : public testing::Test {
 protected:
  void begin(Durability durability = Durability::kEverySecond) {
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
  EXPECT_TRUE(stands_->have_synced(0, stands_->all(), 0)) << "its own log does not matter";
  put(1);
  const std::vector<LogStand> moment = stands_->all();
  EXPECT_FALSE(stands_->have_synced(0, moment, kForever_ns)) << "it will, however long that takes";
  EXPECT_TRUE(logs_[1]->drain());
  put(1);
  EXPECT_TRUE(stands_->have_synced(0, moment, 0)) << "what came behind the moment does not matter";
}

TEST_F(Stands, are_stuck_while_a_log_has_failed) {
  begin();
  EXPECT_FALSE(stands_->is_any_stuck());
  fail(1);
  EXPECT_TRUE(stands_->is_any_stuck());
  const std::vector<LogStand> moment = stands_->all();
  EXPECT_FALSE(stands_->have_synced(0, moment, 50 * kSecond_ns)) << "its snapshot will mend it";
  EXPECT_TRUE(stands_->have_synced(0, moment, 60 * kSecond_ns));
  EXPECT_TRUE(stands_->have_synced(1, moment, 0)) << "that snapshot waits for logs that work alone";
}

TEST_F(Stands, let_snapshots_of_failed_logs_count_at_about_one_moment) {
  begin();
  fail(0);
  fail(1);
  const std::vector<LogStand> moment = stands_->all();
  EXPECT_FALSE(stands_->have_synced(0, moment, 0));
  stands_->set_ready(1, true);
  EXPECT_TRUE(stands_->have_synced(0, moment, 0));
  EXPECT_FALSE(stands_->have_synced(1, moment, 0));
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
    clock_.advance(kSecond_ns);
  }
  stands_->note(1, *logs_[1]);
  stands_->note_state(1, *logs_[1]);
  EXPECT_TRUE(stands_->is_any_stuck());
  const std::vector<LogStand> moment = stands_->all();
  EXPECT_FALSE(stands_->have_synced(0, moment, 4 * kSecond_ns));
  EXPECT_TRUE(stands_->have_synced(0, moment, 5 * kSecond_ns)) << "the snapshot may be what gives it room";
}

}  // namespace
}  // namespace refract::node
