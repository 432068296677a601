// SPDX-License-Identifier: Apache-2.0
// The log's rules one by one: when it writes, syncs, rolls, drops and refuses; what its reader says of
// damage.
#include "refract/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "refract/base/hash.h"
#include "refract/base/testing/needed.h"
#include "refract/memory/testing/fake_system.h"
#include "refract/storage/log/shard_log.h"
#include "refract/storage/posix_disk.h"
#include "refract/storage/testing/simulated_disk.h"
#include "refract/storage/testing/test_ring.h"

namespace refract::storage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class Buffers final : public ValueSource {
 public:
  [[nodiscard]] std::optional<std::span<const std::byte>> value_of(const Record& record) noexcept override {
    const auto found = by_offset.find(record.reference);
    if (found == by_offset.end()) return std::nullopt;
    return std::as_bytes(std::span(found->second));
  }
  std::map<uint64_t, std::string> by_offset;
};

class LogRules : public testing::Test {
 protected:
  void SetUp() override {
    set_log_level(LogLevel::kError);
    clock_.set_now_ns(100 * kSecond_ns);
    spec_.log = {.store = {std::byte{1}}, .shard = 0};
    spec_.options.segment_bytes = 16384;
    spec_.ring = ring_.file();
    spec_.ring_bytes = kRingBytesMin;
    spec_.disk = &disk_;
    spec_.values = &buffers_;
    spec_.clock = &clock_;
    spec_.reference_bytes = 4096;
  }
  void TearDown() override { set_log_level(LogLevel::kInfo); }

  void begin(Durability durability) {
    spec_.options.durability = durability;
    log_ = test::needed(ShardLog::open(spec_));
    const LogReading reading = test::needed(log_->read({}, [](const Record&) {}));
    const Reported<> begun = log_->begin(reading);
    ASSERT_TRUE(begun) << begun.error().to_string();
  }
  void put(uint64_t stamp, size_t value_bytes = 10) {
    const std::string value(value_bytes, static_cast<char>('a' + stamp % 26));
    if (value_bytes >= spec_.reference_bytes) buffers_.by_offset[stamp * 64] = value;
    ASSERT_EQ(log_->room_for(3, value_bytes), ShardLog::Room::kYes);
    log_->append({.stamp = stamp,
                  .key = std::as_bytes(std::span("key", 3)),
                  .value = std::as_bytes(std::span(value)),
                  .buffer = stamp * 64});
  }
  // Everything dies, the host too, and comes back.
  [[nodiscard]] LogReading reading_after_crash(std::vector<uint64_t>& stamps, bool salvage = false) {
    log_.reset();
    disk_.crash();
    ring_.lose();
    return reading(stamps, salvage);
  }
  [[nodiscard]] LogReading reading(std::vector<uint64_t>& stamps, bool salvage = false) {
    stamps.clear();
    const auto log = test::needed(ShardLog::open(spec_));
    return test::needed(
        log->read({.salvage = salvage}, [&](const Record& record) { stamps.push_back(record.stamp); }));
  }

  test::Folder folder_;
  KeptRing ring_{folder_.path(), {std::byte{1}}, 0};
  ManualClock clock_;
  SimulatedDisk disk_{{}};
  Buffers buffers_;
  ShardLogSpec spec_;
  std::unique_ptr<ShardLog> log_;
};

TEST_F(LogRules, always_confirms_a_change_with_the_sync_that_follows_and_one_sync_serves_many) {
  begin(Durability::kAlways);
  for (uint64_t stamp = 1; stamp <= 50; ++stamp) put(stamp);
  EXPECT_LT(log_->confirmed(), log_->appended());
  (void)log_->step();
  EXPECT_EQ(log_->confirmed(), log_->appended());
  EXPECT_EQ(log_->counters().syncs, 1);
  EXPECT_EQ(log_->counters().writes, 1);
  EXPECT_EQ(log_->counters().records, 50);
  std::vector<uint64_t> stamps;
  EXPECT_THAT(reading_after_crash(stamps).damages, SizeIs(0));
  EXPECT_THAT(stamps, SizeIs(50));
}

TEST_F(LogRules, everysec_confirms_at_once_and_syncs_when_a_second_has_passed) {
  begin(Durability::kEverySecond);
  put(1);
  EXPECT_EQ(log_->confirmed(), log_->appended());
  const LogWriter::Step step = log_->step();
  EXPECT_EQ(log_->counters().writes, 0) << "the ring is as safe as the page cache";
  EXPECT_EQ(step.due_ns, clock_.now_ns() + kSecond_ns);
  clock_.advance_ns(kSecond_ns / 2);
  put(2);
  (void)log_->step();
  EXPECT_EQ(log_->counters().syncs, 0);
  clock_.advance_ns(kSecond_ns / 2);
  (void)log_->step();
  EXPECT_EQ(log_->counters().syncs, 1);
  EXPECT_EQ(log_->synced(), log_->appended());
  EXPECT_EQ(log_->step().due_ns, kForever_ns) << "nothing to do";
}

TEST_F(LogRules, a_large_value_is_confirmed_when_it_is_written_and_its_buffer_is_needed_until_then) {
  begin(Durability::kEverySecond);
  put(1);
  const uint64_t before = log_->appended();
  put(2, 5000);
  put(3);
  EXPECT_EQ(log_->confirmed(), before);
  EXPECT_EQ(log_->needed_until(2 * 64), before + log_bytes(3, 5000));
  EXPECT_EQ(log_->needed_until(3 * 64), 0) << "a copied one";
  (void)log_->step();
  EXPECT_EQ(log_->confirmed(), log_->appended());
  EXPECT_EQ(log_->needed_until(2 * 64), 0);
  ASSERT_TRUE(log_->drain());
  std::vector<uint64_t> stamps;
  EXPECT_THAT(reading_after_crash(stamps).damages, SizeIs(0));
  EXPECT_THAT(stamps, ElementsAre(1, 2, 3));
}

TEST_F(LogRules, what_only_the_ring_has_is_read_when_all_processes_die) {
  begin(Durability::kEverySecond);
  put(1);
  put(2, 5000);
  put(3);
  log_.reset();
  std::vector<uint64_t> stamps;
  EXPECT_EQ(reading(stamps).absent_values, 0);
  EXPECT_THAT(stamps, ElementsAre(1, 2, 3));
  buffers_.by_offset.clear();
  EXPECT_EQ(reading(stamps).absent_values, 1) << "the memory was gone, too";
  EXPECT_THAT(stamps, ElementsAre(1, 3));
}

TEST_F(LogRules, a_value_whose_buffer_was_reused_while_no_server_ran_is_absent_and_no_hole) {
  begin(Durability::kAlways);
  put(1);
  put(2, 5000);
  put(3, 9000);
  put(4);
  log_.reset();
  buffers_.by_offset.erase(2 * 64);
  log_ = test::needed(ShardLog::open(spec_));
  ASSERT_TRUE(log_->begin({}));
  ASSERT_TRUE(log_->drain());
  std::vector<uint64_t> stamps;
  const LogReading read = reading_after_crash(stamps);
  EXPECT_THAT(read.damages, SizeIs(0));
  EXPECT_EQ(read.absent_values, 1);
  EXPECT_THAT(stamps, ElementsAre(1, 3, 4));
}

TEST_F(LogRules, segments_below_a_snapshot_are_dropped_and_used_again) {
  begin(Durability::kAlways);
  for (uint64_t stamp = 1; stamp <= 400; ++stamp) {
    put(stamp, 1000);
    (void)log_->step();
    if (stamp % 50 == 0) log_->drop_up_to(stamp - 20);
  }
  const LogCounters counters = log_->counters();
  EXPECT_GT(counters.segments_dropped, 20);
  EXPECT_GT(counters.segments_recycled, 5);
  EXPECT_LT(counters.segments_made, 25);
  EXPECT_LT(log_->disk_bytes(), 12 * spec_.options.segment_bytes);
  log_.reset();
  ring_.lose();
  std::vector<uint64_t> stamps;
  const LogReading read = reading(stamps);
  EXPECT_THAT(read.damages, SizeIs(0));
  EXPECT_LE(read.begins_after_stamp, 380);
  EXPECT_EQ(stamps.back(), 400);
}

TEST_F(LogRules, a_failed_sync_ends_everything_until_a_snapshot_has_it_all) {
  begin(Durability::kAlways);
  put(1);
  (void)log_->step();
  put(2);
  const uint64_t confirmed = log_->confirmed();
  disk_.fail_next_syncs(1);
  set_log_level(LogLevel::kError);
  (void)log_->step();
  EXPECT_EQ(log_->state(), LogState::kFailed);
  EXPECT_THAT(log_->trouble(), HasSubstr("Input/output error"));
  EXPECT_EQ(log_->room_for(3, 10), ShardLog::Room::kFailed);
  clock_.advance_ns(10 * kSecond_ns);
  (void)log_->step();
  EXPECT_EQ(log_->confirmed(), confirmed);
  // The next server finds it failed, too.
  log_.reset();
  log_ = test::needed(ShardLog::open(spec_));
  ASSERT_TRUE(log_->begin({}));
  EXPECT_EQ(log_->state(), LogState::kFailed);
  log_->restart(2);
  (void)log_->step();
  ASSERT_EQ(log_->state(), LogState::kRunning);
  put(3);
  (void)log_->step();
  EXPECT_EQ(log_->confirmed(), log_->appended());
  std::vector<uint64_t> stamps;
  const LogReading read = reading_after_crash(stamps);
  EXPECT_THAT(read.damages, SizeIs(0));
  EXPECT_THAT(stamps, ElementsAre(3));
  EXPECT_EQ(read.begins_after_stamp, 2);
}

TEST_F(LogRules, a_snapshot_older_than_what_the_failed_log_had_does_not_revive_it) {
  begin(Durability::kAlways);
  put(1);
  put(2);
  disk_.fail_next_syncs(1);
  (void)log_->step();
  log_->restart(1);
  (void)log_->step();
  EXPECT_EQ(log_->state(), LogState::kFailed);
  EXPECT_THAT(log_->trouble(), HasSubstr("write another snapshot"));
}

TEST_F(LogRules, a_full_disk_stalls_and_goes_on_by_itself) {
  begin(Durability::kEverySecond);
  disk_.set_capacity(20'000);
  uint64_t stamp = 0;
  while (log_->room_for(3, 3000) == ShardLog::Room::kYes) {
    put(++stamp, 3000);
    (void)log_->step();
  }
  EXPECT_EQ(log_->room_for(3, 3000), ShardLog::Room::kNoSpace);
  EXPECT_EQ(log_->state(), LogState::kStalled);
  EXPECT_THAT(log_->trouble(), HasSubstr("No space left"));
  EXPECT_GT(stamp, 300) << "the ring takes what the disk does not";
  disk_.set_capacity(UINT64_MAX);
  clock_.advance_ns(kSecond_ns);
  ASSERT_TRUE(log_->drain());
  EXPECT_EQ(log_->state(), LogState::kRunning);
  std::vector<uint64_t> stamps;
  EXPECT_THAT(reading_after_crash(stamps).damages, SizeIs(0));
  EXPECT_THAT(stamps, SizeIs(stamp));
}

// A node that died is there to be read, whatever the disk has no room for.
TEST_F(LogRules, a_log_with_files_and_no_room_for_another_begins_when_there_is_some) {
  begin(Durability::kEverySecond);
  for (uint64_t stamp = 1; stamp <= 5; ++stamp) put(stamp);
  ASSERT_TRUE(log_->drain());
  log_.reset();
  disk_.crash();
  ring_.lose();
  disk_.set_capacity(0);
  begin(Durability::kEverySecond);
  EXPECT_EQ(log_->state(), LogState::kStalled);
  EXPECT_EQ(log_->room_for(3, 10), ShardLog::Room::kNoSpace) << "no file would ever have it";
  EXPECT_THAT(log_->trouble(), HasSubstr("No space left"));
  clock_.advance_ns(kSecond_ns);
  (void)log_->step();
  EXPECT_EQ(log_->room_for(3, 10), ShardLog::Room::kNoSpace);
  // Its server dies meanwhile: the next one finds nothing in the ring, and misses nothing.
  log_.reset();
  ASSERT_TRUE(ring_.take_up_again());
  begin(Durability::kEverySecond);
  disk_.set_capacity(UINT64_MAX);
  clock_.advance_ns(kSecond_ns);
  (void)log_->step();
  ASSERT_EQ(log_->state(), LogState::kRunning);
  put(1'000);
  ASSERT_TRUE(log_->drain());
  std::vector<uint64_t> stamps;
  EXPECT_THAT(reading_after_crash(stamps).damages, SizeIs(0));
  EXPECT_THAT(stamps, ElementsAre(1, 2, 3, 4, 5, 1'000));
}

TEST_F(LogRules, a_new_log_on_a_full_disk_does_not_begin) {
  disk_.set_capacity(0);
  spec_.options.durability = Durability::kEverySecond;
  log_ = test::needed(ShardLog::open(spec_));
  EXPECT_EQ(log_->begin({}).error().code, Code::kNoSpace);
}

// A folder that was copied while its node ran, the ring first; or a device that lost the ring's last pages.
TEST_F(LogRules, a_ring_that_the_files_have_left_behind_is_left_aside_and_nothing_is_lost) {
  begin(Durability::kAlways);
  for (uint64_t stamp = 1; stamp <= 5; ++stamp) put(stamp);
  ASSERT_TRUE(log_->drain());
  const RingFile old = test::needed(RingFile::make_in_memory(ring_.identity(), kRingBytesMin));
  ASSERT_TRUE(old.copy_content(*ring_.file()));
  for (uint64_t stamp = 6; stamp <= 9; ++stamp) put(stamp);
  ASSERT_TRUE(log_->drain());
  log_.reset();
  ASSERT_TRUE(ring_.file()->copy_content(old));
  std::vector<uint64_t> stamps;
  EXPECT_THAT(reading(stamps).damages, SizeIs(0));
  EXPECT_THAT(stamps, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  begin(Durability::kAlways);
  put(10);
  ASSERT_TRUE(log_->drain());
  EXPECT_THAT(reading_after_crash(stamps).damages, SizeIs(0));
  EXPECT_THAT(stamps, SizeIs(10));
}

// The other order: the files are older than the ring, and what lies between is nowhere.
TEST_F(LogRules, a_ring_that_is_ahead_of_the_files_is_named_as_damage) {
  begin(Durability::kAlways);
  put(1);
  ASSERT_TRUE(log_->drain());
  const std::string name = segment_name(0, kFirstPosition);
  const std::vector<std::byte> old = disk_.bytes_of(name);
  put(2);
  ASSERT_TRUE(log_->drain());
  put(3);
  log_.reset();
  disk_.replace(name, old);
  std::vector<uint64_t> stamps;
  EXPECT_THAT(reading(stamps).damages, SizeIs(1));
}

// The server died, its memory is whole, and its ring is not.
TEST_F(LogRules, a_lost_ring_fails_the_log_until_a_snapshot_has_everything) {
  begin(Durability::kEverySecond);
  put(1);
  put(2);
  log_.reset();
  spec_.empties_ring = true;
  log_ = test::needed(ShardLog::open(spec_));
  spec_.empties_ring = false;
  ASSERT_TRUE(log_->has_lost_ring());
  ASSERT_TRUE(log_->begin_failed());
  EXPECT_EQ(log_->room_for(3, 10), ShardLog::Room::kFailed);
  // All die before there is one: it is said.
  log_.reset();
  ASSERT_TRUE(ring_.take_up_again());
  std::vector<uint64_t> stamps;
  EXPECT_THAT(reading(stamps).damages, SizeIs(1));
  log_ = test::needed(ShardLog::open(spec_));
  ASSERT_TRUE(log_->begin({}));
  log_->restart(2);
  (void)log_->step();
  ASSERT_EQ(log_->state(), LogState::kRunning);
  put(3);
  ASSERT_TRUE(log_->drain());
  EXPECT_THAT(reading_after_crash(stamps).damages, SizeIs(0));
  EXPECT_THAT(stamps, ElementsAre(3));
}

TEST_F(LogRules, another_version_of_the_format_is_refused_with_a_sentence) {
  begin(Durability::kAlways);
  log_.reset();
  ring_.lose();
  const std::string name = segment_name(0, kFirstPosition);
  std::vector<std::byte> bytes = disk_.bytes_of(name);
  SegmentHeader header;
  std::copy_n(bytes.begin(), sizeof(header), std::as_writable_bytes(std::span(&header, 1)).begin());
  header.version = 9;
  header.checksum = XXH3_64bits(&header, offsetof(SegmentHeader, checksum));
  std::ranges::copy(std::as_bytes(std::span(&header, 1)), bytes.begin());
  disk_.replace(name, bytes);
  const auto read = test::needed(ShardLog::open(spec_))->read({}, [](const Record&) {});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kUnsupported);
  EXPECT_THAT(read.error().what, HasSubstr("version 9 of the log; this program knows 2"));
}

// docs/formats/log.md.
TEST(SegmentHeaders, say_how_the_store_routes_keys) {
  const LogId log{
      .store = {std::byte{7}}, .shard = 1, .shard_count = 3, .copies = 1, .placement = 9, .hash_seed = 42};
  const SegmentHeader header = make_segment_header(log, {.first_position = kFirstPosition});
  const auto bytes = std::as_bytes(std::span(&header, 1));
  EXPECT_EQ(bytes[8], std::byte{2}) << "the version";
  EXPECT_EQ(bytes[72], std::byte{42});
  EXPECT_EQ(bytes[80], std::byte{3});
  EXPECT_EQ(bytes[96], std::byte{1});
  EXPECT_EQ(bytes[112], std::byte{9});
  for (size_t i = 97; i < 504; ++i) ASSERT_TRUE(i == 112 || bytes[i] == std::byte{0}) << i;
  SimulatedDisk disk({});
  const std::string name = segment_name(1, kFirstPosition);
  auto file = test::needed(disk.open(name, OpenMode::kCreate));
  ASSERT_TRUE(file->write(0, bytes));
  const auto found = log_id_in(disk, name);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->copies, 1U);
  EXPECT_EQ((*found)->placement, 9U);
}

TEST_F(LogRules, files_that_are_gone_while_the_ring_is_there_are_no_fresh_log) {
  begin(Durability::kAlways);
  put(1);
  (void)log_->step();
  log_.reset();
  ASSERT_TRUE(disk_.remove(segment_name(0, kFirstPosition)));
  log_ = test::needed(ShardLog::open(spec_));
  ASSERT_TRUE(log_->has_ring());
  EXPECT_THAT(log_->read({}, [](const Record&) {}).value().damages, SizeIs(1));
  EXPECT_EQ(log_->begin({}).error().code, Code::kCorrupt);
}

// A real disk, a real thread, a shard that sleeps only when it may: no wake-up is lost, or this never ends.
TEST(LogThreads, a_shard_that_waits_for_its_log_is_always_woken) {
  for (const Durability durability : {Durability::kAlways, Durability::kEverySecond}) {
    const test::Folder folder;
    const std::unique_ptr<Disk> disk = test::needed(open_posix_disk(folder.path() + "/store"));
    KeptRing ring(folder.path(), {std::byte{3}}, 1);
    Buffers buffers;
    const ShardLogSpec spec = {
        .log = {.store = {std::byte{3}}, .shard = 1},
        .options = {.durability = durability, .segment_bytes = kMiB, .sync_every_ns = 20 * kMillisecond_ns},
        .ring = ring.file(),
        .ring_bytes = kRingBytesMin,
        .disk = disk.get(),
        .values = &buffers,
        .clock = &system_clock()};
    constexpr uint64_t kChanges = 3000;
    const std::string large(70'000, 'L');
    buffers.by_offset[64] = large;
    {
      const auto log = test::needed(ShardLog::open(spec));
      ASSERT_TRUE(log->begin(log->read({}, [](const Record&) {}).value()));
      std::atomic<uint32_t> told = 0;
      ASSERT_TRUE(log->start([&] {
        told.fetch_add(1);
        told.notify_all();
      }));
      const std::string value(500, 'v');
      const auto wait_until = [&](const auto& holds) {
        for (;;) {
          const uint32_t seen = told.load();
          log->want_progress();
          if (holds()) return;
          told.wait(seen);
        }
      };
      for (uint64_t stamp = 1; stamp <= kChanges; ++stamp) {
        const std::string& bytes = stamp % 100 == 0 ? large : value;
        wait_until([&] { return log->room_for(3, bytes.size()) == ShardLog::Room::kYes; });
        log->append({.stamp = stamp,
                     .key = std::as_bytes(std::span("key", 3)),
                     .value = std::as_bytes(std::span(bytes)),
                     .buffer = 64});
        if (stamp % 10 != 0) continue;
        log->ring_bell();
        if (stamp % 50 == 0) wait_until([&] { return log->confirmed() >= log->appended(); });
      }
      wait_until([&] { return log->synced() >= log->appended(); });
      EXPECT_GT(log->counters().syncs, 0);
    }
    ring.lose();
    uint64_t next = 1;
    const auto read = test::needed(ShardLog::open(spec))->read({}, [&](const Record& record) {
      EXPECT_EQ(record.stamp, next++);
    });
    ASSERT_TRUE(read) << read.error().to_string();
    EXPECT_THAT(read->damages, SizeIs(0));
    EXPECT_EQ(next, kChanges + 1);
  }
}

TEST(LogThreads, a_log_with_nothing_to_do_uses_no_processor) {
  const test::Folder folder;
  const std::unique_ptr<Disk> disk = test::needed(open_posix_disk(folder.path() + "/store"));
  const auto log = ShardLog::open({.log = {.store = {std::byte{3}}, .shard = 1},
                                   .options = {.segment_bytes = kMiB, .sync_every_ns = kMillisecond_ns},
                                   .ring_bytes = kRingBytesMin,
                                   .disk = disk.get(),
                                   .clock = &system_clock()})
                       .value();
  ASSERT_TRUE(log->begin(log->read({}, [](const Record&) {}).value()));
  ASSERT_TRUE(log->start({}));
  log->append({.stamp = 1, .key = std::as_bytes(std::span("key", 3))});
  log->ring_bell();
  while (log->synced() < log->appended()) std::this_thread::yield();
  // Whatever it does by mistake it does in rounds; a round that does nothing is not counted, so time is: but
  // the process's, which a busy machine does not lengthen.
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 10);
}

}  // namespace
}  // namespace refract::storage
