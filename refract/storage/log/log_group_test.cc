// SPDX-License-Identifier: Apache-2.0
// Groups in a log: wherever a file is cut, all of one is there or nothing of it; none lies in two segments;
// what is too large is said at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "refract/base/log.h"
#include "refract/base/testing/needed.h"
#include "refract/memory/testing/fake_system.h"
#include "refract/storage/group.h"
#include "refract/storage/log/shard_log.h"
#include "refract/storage/testing/simulated_disk.h"
#include "refract/storage/testing/test_ring.h"

namespace refract::storage {
namespace {

using testing::ElementsAre;
using testing::SizeIs;
using Stamps = std::vector<uint64_t>;

class LogGroups : public testing::Test {
 protected:
  void SetUp() override {
    set_log_level(LogLevel::kError);
    spec_.log = {.store = {std::byte{1}}, .shard = 0};
    spec_.options.segment_bytes = 16384;
    spec_.options.durability = Durability::kAlways;
    spec_.ring = ring_.file();
    spec_.ring_bytes = kRingBytesMin;
    spec_.disk = &disk_;
    spec_.clock = &clock_;
    spec_.reference_bytes = 4096;
    begin();
  }
  void TearDown() override { set_log_level(LogLevel::kInfo); }

  void begin() {
    log_ = test::needed(ShardLog::open(spec_));
    const LogReading reading = test::needed(log_->read({}, [](const Record&) {}));
    ASSERT_TRUE(log_->begin(reading));
  }
  void put(uint64_t stamp) {
    ASSERT_EQ(log_->room_for(3, 5), ShardLog::Room::kYes);
    log_->append({.stamp = stamp, .key = as_bytes("key"), .value = as_bytes("value")});
  }
  // With the numbers behind it as stamps, and so many bytes in each value.
  void group(uint64_t number, uint64_t count, size_t value_bytes = 20) {
    const std::string value(value_bytes, 'g');
    std::vector<Record> changes;
    for (uint64_t i = 1; i <= count; ++i) {
      changes.push_back({.stamp = number + i,
                         .key = as_bytes("in a group"),
                         .value = as_bytes(value),
                         .value_bytes = value.size()});
    }
    ASSERT_EQ(log_->room_for_group(count, count * (10 + value_bytes)), ShardLog::Room::kYes);
    log_->append_group(number, changes);
  }
  static std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

  [[nodiscard]] LogReading read(SimulatedDisk& disk, Stamps& stamps, const LogReadOptions& options = {}) {
    stamps.clear();
    return test::needed(read_log(disk, spec_.log, nullptr, nullptr, options,
                                 [&](const Record& record) { stamps.push_back(record.stamp); }));
  }

  test::Folder folder_;
  KeptRing ring_{folder_.path(), {std::byte{1}}, 0};
  ManualClock clock_;
  SimulatedDisk disk_{{}};
  ShardLogSpec spec_;
  std::unique_ptr<ShardLog> log_;
};

// The bytes behind the cut are those of before, or are gone with the end of the file, or are another life's.
TEST_F(LogGroups, a_file_that_is_cut_at_any_byte_has_all_of_a_group_or_nothing) {
  put(1);
  (void)log_->step();
  const uint64_t begins = kSegmentHeaderBytes + log_->appended() - kFirstPosition;
  group(2, 3);
  const uint64_t ends = kSegmentHeaderBytes + log_->appended() - kFirstPosition;
  put(6);
  const uint64_t all = kSegmentHeaderBytes + log_->appended() - kFirstPosition;
  (void)log_->step();
  const std::string name = segment_name(0, kFirstPosition);
  const std::vector<std::byte> whole = disk_.bytes_of(name);
  for (const int rest : {0, 0xff, -1}) {
    for (uint64_t cut = begins; cut < all; ++cut) {
      std::vector<std::byte> bytes = whole;
      bytes.resize(cut);
      if (rest >= 0) bytes.resize(whole.size(), static_cast<std::byte>(rest));
      SimulatedDisk disk({});
      ASSERT_TRUE(disk.open(name, OpenMode::kCreate));
      disk.replace(name, bytes);
      Stamps stamps;
      const LogReading reading = read(disk, stamps, {.salvage = true});
      // What a byte lacks may have been a zero.
      if (cut + kRecordUnit <= ends) {
        ASSERT_THAT(stamps, ElementsAre(1)) << cut;
      } else if (stamps.size() > 1) {
        ASSERT_THAT(stamps, ElementsAre(1, 3, 4, 5)) << cut;
      }
      if (cut >= ends) {
        ASSERT_THAT(stamps, SizeIs(4)) << cut;
      }
      // A file that is shorter than it was made says so itself.
      if (rest >= 0) {
        ASSERT_THAT(reading.damages, SizeIs(0)) << cut;
      }
    }
  }
}

TEST_F(LogGroups, a_hole_in_a_group_takes_all_of_it) {
  put(1);
  group(2, 40);
  put(50);
  while (log_->step().did_something) {
  }
  const std::string name = segment_name(0, kFirstPosition);
  const std::vector<std::byte> whole = disk_.bytes_of(name);
  for (uint64_t hole = 2 * kSectorBytes; hole < 4 * kSectorBytes; hole += kSectorBytes) {
    std::vector<std::byte> bytes = whole;
    std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(hole), kSectorBytes, std::byte{0});
    disk_.replace(name, bytes);
    Stamps stamps;
    const LogReading torn = read(disk_, stamps);
    EXPECT_THAT(stamps, ElementsAre(1));
    EXPECT_THAT(torn.damages, SizeIs(1)) << "the mark knows that it was confirmed";
    EXPECT_EQ(torn.damages.front().changes_max, 48U);
    (void)read(disk_, stamps, {.salvage = true});
    EXPECT_THAT(stamps, ElementsAre(1, 50)) << "no half of it, also where the rest is saved";
  }
}

TEST_F(LogGroups, a_group_lies_in_one_segment_and_a_longer_one_in_a_segment_of_its_own) {
  uint64_t stamp = 0;
  Stamps expected;
  for (int i = 0; i < 60; ++i) {
    const uint64_t count = 1 + static_cast<uint64_t>(i % 9);
    // Every twentieth is longer than a segment.
    group(stamp + 1, count, i % 20 == 19 ? 9'000 : 250);
    for (uint64_t of = 1; of <= count; ++of) expected.push_back(stamp + 1 + of);
    stamp += 1 + count;
    (void)log_->step();
  }
  ASSERT_TRUE(log_->drain());
  Stamps stamps;
  const LogReading reading = read(disk_, stamps);
  EXPECT_THAT(reading.damages, SizeIs(0));
  EXPECT_EQ(stamps, expected);
  EXPECT_EQ(reading.records, expected.size());
  EXPECT_GT(reading.segments.size(), 6U);
  // Each file by itself has whole groups, whose first one says that nothing is missing before it.
  Stamps alone;
  for (const SegmentReading& segment : reading.segments) {
    const LogReading one = test::needed(read_segment_alone(disk_, spec_.log, segment.name));
    EXPECT_THAT(one.damages, SizeIs(0));
    EXPECT_EQ(one.segments.front().last_stamp, segment.last_stamp);
    alone.push_back(segment.first_stamp);
  }
  // A snapshot between two groups lets everything before it go, and what is left needs nothing else.
  const uint64_t moment = alone[3] - 1;
  log_->drop_up_to(moment);
  (void)log_->step();
  EXPECT_EQ(test::needed(find_log_files(disk_, spec_.log)).segments.front().first_stamp, alone[3]);
  const LogReading rest = read(disk_, stamps, {.after_stamp = moment});
  EXPECT_THAT(rest.damages, SizeIs(0));
  EXPECT_LE(rest.begins_after_stamp, moment);
  EXPECT_GT(stamps.front(), moment);
}

TEST_F(LogGroups, a_large_value_of_a_group_is_in_the_ring_and_its_buffer_is_free_at_once) {
  group(1, 3, 5'000);
  EXPECT_GT(log_->appended() - kFirstPosition, 15'000U);
  EXPECT_EQ(log_->needed_until(0), 0U);
  (void)log_->step();
  Stamps stamps;
  EXPECT_EQ(read(disk_, stamps).absent_values, 0U);
  EXPECT_THAT(stamps, ElementsAre(2, 3, 4));
}

TEST_F(LogGroups, more_than_a_quarter_of_the_ring_is_too_large_at_once_and_less_waits_for_room) {
  constexpr uint64_t kQuarter = kRingBytesMin / 4;
  EXPECT_EQ(log_->room_for_group(1, kQuarter), ShardLog::Room::kTooLarge);
  EXPECT_EQ(log_->room_for_group(kQuarter / 31, 0), ShardLog::Room::kTooLarge);
  const uint64_t bytes = kQuarter - group_bytes_max(1, 0);
  for (int i = 0; i < 4; ++i) group(10 * static_cast<uint64_t>(i) + 1, 1, bytes - 10);
  EXPECT_EQ(log_->room_for_group(1, bytes), ShardLog::Room::kLater);
  EXPECT_EQ(log_->room_for_group(1, bytes + 8), ShardLog::Room::kTooLarge) << "not that it should wait";
  (void)log_->step();
  EXPECT_EQ(log_->room_for_group(1, bytes), ShardLog::Room::kYes);
}

TEST_F(LogGroups, the_next_server_finds_the_last_group_whole_taken_or_not) {
  put(1);
  group(2, 3);
  for (const bool is_taken : {false, true}) {
    if (is_taken) (void)log_->step();
    log_.reset();
    log_ = test::needed(ShardLog::open(spec_));
    const Record last = test::needed(log_->last_record());
    EXPECT_EQ(last.kind, RecordKind::kGroup);
    EXPECT_EQ(last.stamp, 2U);
    EXPECT_EQ(last_stamp_of(last), 5U);
    Stamps stamps;
    GroupReader changes(last);
    while (const auto change = changes.next()) stamps.push_back(change->stamp);
    EXPECT_THAT(stamps, ElementsAre(3, 4, 5));
    Stamps all;
    const LogReading reading =
        test::needed(log_->read({}, [&](const Record& record) { all.push_back(record.stamp); }));
    EXPECT_THAT(all, ElementsAre(1, 3, 4, 5));
    ASSERT_TRUE(log_->begin(reading));
  }
}

// The log has failed, and begins again behind a snapshot: what the ring has of before is passed, by groups.
TEST_F(LogGroups, a_log_that_begins_again_passes_whole_groups) {
  group(1, 2);
  (void)log_->step();
  disk_.fail_next_syncs(1);
  group(4, 2);
  (void)log_->step();
  ASSERT_EQ(log_->state(), LogState::kFailed);
  log_->restart(4);
  (void)log_->step();
  ASSERT_EQ(log_->state(), LogState::kFailed) << "such a snapshot lacks a group";
  log_->restart(6);
  (void)log_->step();
  ASSERT_EQ(log_->state(), LogState::kRunning);
  group(7, 2);
  (void)log_->step();
  Stamps stamps;
  EXPECT_THAT(read(disk_, stamps, {.after_stamp = 6}).damages, SizeIs(0));
  EXPECT_THAT(stamps, ElementsAre(8, 9));
}

}  // namespace
}  // namespace refract::storage
