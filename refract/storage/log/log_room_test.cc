// SPDX-License-Identifier: Apache-2.0
// A log on a disk that has no room at one place: it waits there, leaves nothing behind, says so once, and
// continues.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/log.h"
#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/memory/testing/fake_system.h"
#include "refract/storage/log/shard_log.h"
#include "refract/storage/testing/simulated_disk.h"
#include "refract/storage/testing/test_ring.h"

namespace refract::storage {
namespace {

// Refuses what it is told to, as if room were short.
class CrampedDisk final : public Disk {
 public:
  explicit CrampedDisk(Disk& disk) : disk_(disk) {}

  [[nodiscard]] Reported<std::unique_ptr<File>> open(std::string_view name, OpenMode mode) override {
    auto file = disk_.open(name, mode);
    if (!file) return file;
    return std::make_unique<CrampedFile>(*this, *std::move(file));
  }
  [[nodiscard]] Reported<> rename(std::string_view from, std::string_view to) override {
    if (refuses_names) return full("rename");
    return disk_.rename(from, to);
  }
  [[nodiscard]] Reported<> remove(std::string_view name) override { return disk_.remove(name); }
  [[nodiscard]] Reported<> sync_folder() override { return disk_.sync_folder(); }
  [[nodiscard]] Reported<std::vector<std::string>> list() override { return disk_.list(); }
  [[nodiscard]] Reported<std::unique_ptr<Lock>> lock(std::string_view name) override {
    return disk_.lock(name);
  }
  [[nodiscard]] std::string path_of(std::string_view name) const override { return disk_.path_of(name); }

  bool refuses_names = false;
  bool refuses_writes = false;
  bool refuses_files = false;

 private:
  class CrampedFile final : public File {
   public:
    CrampedFile(CrampedDisk& disk, std::unique_ptr<File> file) : disk_(disk), file_(std::move(file)) {}
    [[nodiscard]] Reported<> write(uint64_t offset, std::span<const std::byte> bytes) override {
      if (disk_.refuses_writes) return full("write");
      return file_->write(offset, bytes);
    }
    [[nodiscard]] Reported<uint64_t> read(uint64_t offset, std::span<std::byte> bytes) override {
      return file_->read(offset, bytes);
    }
    [[nodiscard]] Reported<> sync() override { return file_->sync(); }
    [[nodiscard]] Reported<> allocate(uint64_t bytes) override {
      if (disk_.refuses_files) return full("allocate");
      return file_->allocate(bytes);
    }
    [[nodiscard]] Reported<> truncate(uint64_t bytes) override { return file_->truncate(bytes); }
    [[nodiscard]] Reported<uint64_t> bytes() override { return file_->bytes(); }
    void start_writeback(uint64_t offset, uint64_t bytes) override { file_->start_writeback(offset, bytes); }
    [[nodiscard]] Reported<> finish_writeback(uint64_t offset, uint64_t bytes) override {
      return file_->finish_writeback(offset, bytes);
    }
    void drop_cached(uint64_t offset, uint64_t bytes) override { file_->drop_cached(offset, bytes); }

   private:
    CrampedDisk& disk_;
    std::unique_ptr<File> file_;
  };

  [[nodiscard]] static std::unexpected<Report> full(const char* what) {
    return report(Code::kNoSpace, std::string("cannot ") + what + ": No space left on device", "make room");
  }

  Disk& disk_;
};

class LogRoom : public testing::Test {
 protected:
  void SetUp() override { begin(Durability::kAlways); }
  void begin(Durability durability) {
    log_.reset();
    set_log_level(LogLevel::kError);
    clock_.set_now_ns(100 * kSecond_ns);
    log_ = ShardLog::open({.log = {.store = {std::byte{1}}, .shard = 0},
                           .options = {.durability = durability, .segment_bytes = 16384},
                           .ring_bytes = kRingBytesMin,
                           .disk = &cramped_,
                           .values = &values_,
                           .clock = &clock_,
                           .reference_bytes = 8'000})
               .value();
    const LogReading reading = test::needed(log_->read({}, [](const Record&) {}));
    ASSERT_TRUE(log_->begin(reading));
  }
  void TearDown() override { set_log_level(LogLevel::kInfo); }

  void put(uint64_t value_bytes = 3'000) {
    const std::string value(value_bytes, 'v');
    ASSERT_EQ(log_->room_for(3, value.size()), ShardLog::Room::kYes) << log_->trouble();
    log_->append({.stamp = ++stamp_,
                  .key = std::as_bytes(std::span("key", 3)),
                  .value = std::as_bytes(std::span(value))});
  }
  void step(int times = 1) {
    for (int i = 0; i < times; ++i) {
      clock_.advance_ns(300 * kMillisecond_ns);
      (void)log_->step();
    }
  }
  [[nodiscard]] size_t files() { return disk_.list()->size(); }

  class Zeros final : public ValueSource {
   public:
    [[nodiscard]] std::optional<std::span<const std::byte>> value_of(const Record& record) noexcept override {
      bytes_.resize(record.value_bytes);
      return bytes_;
    }

   private:
    std::vector<std::byte> bytes_;
  };

  ManualClock clock_;
  Zeros values_;
  SimulatedDisk disk_{{}};
  CrampedDisk cramped_{disk_};
  std::unique_ptr<ShardLog> log_;
  uint64_t stamp_ = 0;
};

TEST_F(LogRoom, a_segment_that_cannot_get_its_name_is_tried_again_and_no_file_is_left_behind) {
  cramped_.refuses_names = true;
  for (int i = 0; i < 7; ++i) put();
  step(30);
  EXPECT_EQ(log_->state(), LogState::kStalled);
  EXPECT_LE(files(), 2U) << "the segment, and the one that is to come";
  cramped_.refuses_names = false;
  step(2);
  EXPECT_EQ(log_->state(), LogState::kRunning);
  EXPECT_EQ(log_->confirmed(), log_->appended());
}

TEST_F(LogRoom, a_log_that_rests_does_not_wait_for_room) {
  put();
  (void)log_->step();
  EXPECT_EQ(log_->confirmed(), log_->appended());
  // No caller waits for what is left to write now.
  cramped_.refuses_writes = true;
  step(5);
  cramped_.refuses_writes = false;
  step(5);
  EXPECT_EQ(log_->state(), LogState::kRunning) << log_->trouble();
  put();
  step();
  EXPECT_EQ(log_->confirmed(), log_->appended());
}

TEST_F(LogRoom, a_disk_that_stays_full_is_told_of_once) {
  set_log_level(LogLevel::kWarn);
  cramped_.refuses_files = true;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) put();
  step(30);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("no room for its next segment"), std::string::npos) << said;
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
}

TEST_F(LogRoom, nobody_is_made_to_wait_behind_a_large_value_for_which_there_is_no_room) {
  begin(Durability::kEverySecond);
  cramped_.refuses_files = true;
  put(9'000);
  step(5);
  put(9'000);
  step();
  ASSERT_EQ(log_->state(), LogState::kStalled);
  EXPECT_LT(log_->confirmed(), log_->appended());
  EXPECT_EQ(log_->room_for(3, 3), ShardLog::Room::kNoSpace);
  cramped_.refuses_files = false;
  step(2);
  EXPECT_EQ(log_->confirmed(), log_->appended());
  put(3);
  EXPECT_EQ(log_->confirmed(), log_->appended());
}

// A caller that waits for room looks again when progress() has changed, and at no other time.
TEST_F(LogRoom, room_that_comes_is_progress_where_every_change_is_confirmed_at_once) {
  begin(Durability::kEverySecond);
  while (log_->room_for(3, 3'000) == ShardLog::Room::kYes) put();
  ASSERT_EQ(log_->room_for(3, 3'000), ShardLog::Room::kLater);
  ASSERT_EQ(log_->confirmed(), log_->appended());
  const ShardLog::Progress before = log_->progress();
  step();
  EXPECT_EQ(log_->room_for(3, 3'000), ShardLog::Room::kYes);
  EXPECT_NE(log_->progress(), before);
}

// All processes end, with the disk full: the next start skips stamps and cannot write so yet. No later start
// of a server, whose memory has what was skipped, may take a change before that is written.
TEST_F(LogRoom, stamps_that_a_start_skips_are_on_the_disk_before_a_change_has_a_higher_one) {
  const test::Folder folder;
  const KeptRing ring(folder.path(), {std::byte{1}}, 0);
  const auto open = [&] {
    log_.reset();
    log_ = ShardLog::open({.log = {.store = {std::byte{1}}, .shard = 0},
                           .options = {.segment_bytes = 16384},
                           .ring = ring.file(),
                           .disk = &cramped_,
                           .values = &values_,
                           .clock = &clock_})
               .value();
  };
  const auto read = [&] { return test::needed(log_->read({}, [](const Record&) {})); };
  open();
  ASSERT_TRUE(log_->begin(read()));
  for (int i = 0; i < 8; ++i) put();
  constexpr uint64_t kFloor = 1'000'000;
  cramped_.refuses_files = true;
  for (int server = 0; server < 3; ++server) {
    open();
    LogReading reading = read();
    EXPECT_EQ(reading.records, 8U);
    reading.end.stamp = kFloor;
    ASSERT_TRUE(log_->begin(reading));
    EXPECT_EQ(log_->room_for(3, 3'000), ShardLog::Room::kNoSpace) << server;
    step();
    EXPECT_EQ(log_->room_for(3, 3'000), ShardLog::Room::kNoSpace) << server;
  }
  cramped_.refuses_files = false;
  step(2);
  stamp_ = kFloor;
  put();
  EXPECT_EQ(log_->confirmed(), log_->appended());
  // With no disk having it.
  log_.reset();
  disk_.crash();
  log_ = ShardLog::open({.log = {.store = {std::byte{1}}, .shard = 0}, .disk = &cramped_, .clock = &clock_})
             .value();
  const LogReading reading = read();
  EXPECT_EQ(reading.records, 8U);
  EXPECT_GE(reading.end.stamp, kFloor);
}

}  // namespace
}  // namespace refract::storage
