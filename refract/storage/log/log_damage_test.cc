// SPDX-License-Identifier: Apache-2.0
// Whatever happens to a log's files while they lie on a disk: it is found and named, or it took nothing away.
//
// Method: a log of several files is damaged in one place, for every place, and read back. What is handed out
// is compared with what was appended. A salvage must get each record that the damage did not touch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "refract/base/hash.h"
#include "refract/base/log.h"
#include "refract/base/testing/needed.h"
#include "refract/base/testing/turns.h"
#include "refract/storage/log/shard_log.h"
#include "refract/storage/testing/simulated_disk.h"

namespace refract::storage {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr uint64_t kStamps = 60;
constexpr uint64_t kSegmentBytes = 8192;

// A record as it was appended: in which file, and where.
struct Place {
  std::string file;
  uint64_t begin = 0;
  uint64_t end = 0;
};

std::string value_of(uint64_t stamp) {
  return std::string(100 + stamp * 7 % 300, static_cast<char>('a' + stamp % 26));
}

class LogDamaged : public testing::Test {
 protected:
  void SetUp() override {
    set_log_level(LogLevel::kError);
    write_log(disk_, kLog);
    const LogFiles files = test::needed(find_log_files(disk_, kLog));
    for (const Segment& segment : files.segments) {
      files_.push_back(segment.name);
      sound_.push_back(disk_.bytes_of(segment.name));
    }
    ASSERT_GE(files_.size(), 3U);
    find_places();
  }
  void TearDown() override { set_log_level(LogLevel::kInfo); }

  // Records with stamps 10, 20, ... each confirmed by itself; then the log rests.
  static void write_log(Disk& disk, const LogId& id) {
    ManualClock clock;
    clock.set_now_ns(kSecond_ns);
    ShardLogSpec spec{.log = id, .disk = &disk, .clock = &clock, .reference_bytes = 4096};
    spec.options = {.durability = Durability::kAlways, .segment_bytes = kSegmentBytes};
    spec.ring_bytes = kRingBytesMin;
    const auto log = test::needed(ShardLog::open(spec));
    ASSERT_TRUE(log->begin(log->read({}, [](const Record&) {}).value()));
    for (uint64_t stamp = 1; stamp <= kStamps; ++stamp) {
      const std::string value = value_of(stamp);
      const std::string key = "key-" + std::to_string(stamp % 17);
      log->append({.stamp = 10 * stamp,
                   .key = std::as_bytes(std::span(key)),
                   .value = std::as_bytes(std::span(value))});
      (void)log->step();
    }
    ASSERT_TRUE(log->drain());
  }

  [[nodiscard]] LogReading read(bool salvage = false) {
    stamps_.clear();
    return read_log(disk_, kLog, nullptr, nullptr, {.salvage = salvage},
                    [&](const Record& record) {
                      stamps_.push_back(record.stamp);
                      const std::string value = value_of(record.stamp / 10);
                      EXPECT_TRUE(std::ranges::equal(record.value, std::as_bytes(std::span(value))))
                          << "a wrong value";
                    })
        .value();
  }

  void find_places() {
    places_.clear();
    uint64_t position = kFirstPosition;
    size_t file = 0;
    const std::vector<Segment> segments = test::needed(find_log_files(disk_, kLog)).segments;
    const LogReading all =
        test::needed(read_log(disk_, kLog, nullptr, nullptr, {}, [&](const Record& record) {
          position = record.position;
          while (file + 1 < segments.size() && segments[file + 1].first_position <= position) ++file;
          const uint64_t begin = kSegmentHeaderBytes + position - segments[file].first_position;
          places_.push_back({.file = segments[file].name,
                             .begin = begin,
                             .end = begin + log_bytes(record.key.size(), record.value_bytes)});
        }));
    ASSERT_THAT(all.damages, SizeIs(0));
    ASSERT_EQ(all.torn_position, 0U);
    ASSERT_THAT(places_, SizeIs(kStamps));
  }

  // What was read strictly, of which nothing may be wrong; whether damage was named, with `file` and a part
  // of [from, to) of it.
  void judge(const LogReading& read, const std::string& file, uint64_t from, uint64_t to) {
    for (size_t i = 0; i < stamps_.size(); ++i) ASSERT_EQ(stamps_[i], 10 * (i + 1)) << "out of order";
    if (read.damages.empty()) {
      ASSERT_THAT(stamps_, SizeIs(kStamps)) << "lost without a word";
      return;
    }
    const bool is_named = std::ranges::any_of(read.damages, [&](const LogDamage& damage) {
      return damage.path.ends_with(file) && damage.file_offset < to &&
             from < damage.file_offset + damage.bytes;
    });
    ASSERT_TRUE(is_named) << read.damages.front().to_string();
  }
  // Salvage has every record but those that [from, to) of `file` touches.
  void judge_salvage(const std::string& file, uint64_t from, uint64_t to) {
    (void)read(/*salvage=*/true);
    size_t next = 0;
    for (size_t i = 0; i < places_.size(); ++i) {
      const bool is_there = next < stamps_.size() && stamps_[next] == 10 * (i + 1);
      next += is_there ? 1 : 0;
      const bool is_touched = places_[i].file == file && places_[i].begin < to && from < places_[i].end;
      ASSERT_TRUE(is_there || is_touched) << "stamp " << 10 * (i + 1);
    }
    ASSERT_EQ(next, stamps_.size());
  }

  static constexpr LogId kLog = {.store = {std::byte{1}}, .shard = 0};
  SimulatedDisk disk_{{}};
  std::vector<std::string> files_;
  std::vector<std::vector<std::byte>> sound_;
  std::vector<Place> places_;
  std::vector<uint64_t> stamps_;
};

TEST_F(LogDamaged, a_flipped_bit_is_named_wherever_it_is_or_took_nothing_away) {
  uint64_t harmless = 0;
  uint64_t named = 0;
  for (size_t i = 0; i < files_.size(); ++i) {
    for (uint64_t byte = 0; byte < sound_[i].size(); byte += test::kStride) {
      disk_.flip_bit(files_[i], 8 * byte + byte % 8);
      const LogReading found = read();
      ASSERT_NO_FATAL_FAILURE(judge(found, files_[i], byte, byte + 1)) << files_[i] << " byte " << byte;
      const bool is_record = std::ranges::any_of(places_, [&](const Place& place) {
        return place.file == files_[i] && place.begin <= byte && byte < place.end;
      });
      // Everything in a header or a record counts. What is left are the marks, which say that there is
      // nothing behind them, and the zero bytes behind those.
      ASSERT_EQ(found.damages.empty(), byte >= kSegmentHeaderBytes && !is_record) << files_[i] << " " << byte;
      ++(found.damages.empty() ? harmless : named);
      ASSERT_NO_FATAL_FAILURE(judge_salvage(files_[i], byte, byte + 1)) << files_[i] << " byte " << byte;
      disk_.replace(files_[i], sound_[i]);
    }
  }
  EXPECT_GT(named, kStamps * 200 / test::kStride);
  EXPECT_GT(harmless, 1000U / test::kStride);
}

// The last record of all, which a crash could have torn, if nothing knew that it had been confirmed.
TEST_F(LogDamaged, a_last_record_that_was_confirmed_is_no_torn_tail) {
  const Place& last = places_.back();
  for (uint64_t bit = 8 * last.begin; bit < 8 * last.end; ++bit) {
    disk_.flip_bit(last.file, bit);
    const LogReading found = read();
    ASSERT_THAT(found.damages, SizeIs(1)) << bit;
    EXPECT_EQ(found.damages[0].file_offset, last.begin);
    EXPECT_EQ(found.damages[0].bytes, last.end - last.begin);
    EXPECT_EQ(found.damages[0].after_stamp, 10 * (kStamps - 1));
    EXPECT_THAT(found.damages[0].lost(), HasSubstr("with versions from 591 to 600"));
    EXPECT_EQ(found.end.stamp, 10 * kStamps) << "its stamp must not be given again";
    EXPECT_EQ(found.torn_position, 0U);
    disk_.flip_bit(last.file, bit);
  }
}

TEST_F(LogDamaged, without_its_mark_the_last_record_is_cut_and_what_was_cut_is_said) {
  const Place& last = places_.back();
  const auto i = static_cast<size_t>(std::ranges::find(files_, last.file) - files_.begin());
  std::vector<std::byte> bytes = sound_[i];
  std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(last.end), sizeof(LogMark), std::byte{0});
  bytes[last.end - 9] ^= std::byte{1};
  disk_.replace(last.file, bytes);
  const LogReading found = read();
  EXPECT_THAT(found.damages, SizeIs(0));
  EXPECT_THAT(stamps_, SizeIs(kStamps - 1));
  EXPECT_NE(found.torn_position, 0U);
  EXPECT_EQ(found.torn.file_offset, last.begin);
  EXPECT_EQ(found.torn.bytes, last.end - last.begin);
  EXPECT_EQ(found.torn.records, 0U);
}

TEST_F(LogDamaged, a_file_that_was_cut_anywhere_is_named) {
  for (size_t i = 0; i < files_.size(); ++i) {
    for (uint64_t bytes = 0; bytes < sound_[i].size(); bytes += test::kStride) {
      disk_.replace(files_[i], std::span(sound_[i]).first(bytes));
      const LogReading found = read();
      ASSERT_FALSE(found.damages.empty()) << files_[i] << " of " << bytes << " bytes";
      ASSERT_NO_FATAL_FAILURE(judge(found, files_[i], 0, sound_[i].size()));
      ASSERT_NO_FATAL_FAILURE(judge_salvage(files_[i], bytes, sound_[i].size()));
    }
    disk_.replace(files_[i], sound_[i]);
  }
}

TEST_F(LogDamaged, a_sector_of_zero_bytes_is_named) {
  for (size_t i = 0; i < files_.size(); ++i) {
    for (uint64_t at = 0; at < sound_[i].size(); at += kSectorBytes) {
      std::vector<std::byte> bytes = sound_[i];
      std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(at), kSectorBytes, std::byte{0});
      disk_.replace(files_[i], bytes);
      const LogReading found = read();
      const bool is_record = std::ranges::any_of(places_, [&](const Place& place) {
        return place.file == files_[i] && place.begin < at + kSectorBytes && at < place.end;
      });
      // The sector of the mark takes the end of the last record along: then nothing knows of that any more.
      const bool has_mark = i + 1 == files_.size() && places_.back().end < at + kSectorBytes;
      if (!has_mark) {
        ASSERT_NO_FATAL_FAILURE(judge(found, files_[i], at, at + kSectorBytes)) << files_[i] << " at " << at;
        ASSERT_EQ(found.damages.empty(), at > 0 && !is_record) << files_[i] << " at " << at;
      } else if (is_record) {
        ASSERT_NE(found.torn_position, 0U) << "it is said that something was cut";
      }
      ASSERT_NO_FATAL_FAILURE(judge_salvage(files_[i], at, at + kSectorBytes)) << files_[i] << " at " << at;
    }
    disk_.replace(files_[i], sound_[i]);
  }
}

TEST_F(LogDamaged, a_missing_file_is_named_also_the_last_one) {
  for (size_t i = 1; i < files_.size(); ++i) {
    ASSERT_TRUE(disk_.remove(files_[i]));
    const LogReading found = read();
    ASSERT_THAT(found.damages, SizeIs(1));
    const bool is_last = i + 1 == files_.size();
    EXPECT_THAT(found.damages[0].to_string(),
                HasSubstr(is_last ? files_[i] + ": 0 bytes" : "records are missing up to the next file"));
    for (size_t k = 0; k < stamps_.size(); ++k) ASSERT_EQ(stamps_[k], 10 * (k + 1));
    ASSERT_NO_FATAL_FAILURE(judge_salvage(files_[i], 0, kSegmentBytes));
    ASSERT_TRUE(disk_.open(files_[i], OpenMode::kCreate));
    disk_.replace(files_[i], sound_[i]);
  }
  // Of a first one only a snapshot can know.
  ASSERT_TRUE(disk_.remove(files_[0]));
  EXPECT_GT(read().begins_after_stamp, 0U);
}

TEST_F(LogDamaged, files_under_each_others_names_are_named_and_salvaged_as_what_they_are) {
  ASSERT_TRUE(disk_.rename(files_[0], "aside"));
  ASSERT_TRUE(disk_.rename(files_[1], files_[0]));
  ASSERT_TRUE(disk_.rename("aside", files_[1]));
  const LogReading found = read();
  ASSERT_THAT(found.damages, SizeIs(2));
  EXPECT_THAT(found.damages[0].to_string(),
              HasSubstr("it is the file " + files_[0] + ", under another name"));
  EXPECT_THAT(stamps_, SizeIs(0));
  (void)read(/*salvage=*/true);
  EXPECT_THAT(stamps_, SizeIs(kStamps)) << "nothing was lost";
}

TEST_F(LogDamaged, a_copy_is_named_and_read_once) {
  const std::string copy = segment_name(0, kFirstPosition + 80'000);
  ASSERT_TRUE(disk_.open(copy, OpenMode::kCreate));
  disk_.replace(copy, sound_[1]);
  const LogReading found = read();
  ASSERT_FALSE(found.damages.empty());
  EXPECT_THAT(found.damages[0].to_string(), HasSubstr("it is a copy of " + files_[1]));
  EXPECT_THAT(found.damages[0].path, HasSubstr(copy));
  (void)read(/*salvage=*/true);
  EXPECT_THAT(stamps_, SizeIs(kStamps));
}

// Both by their right checksum and by their name.
TEST_F(LogDamaged, a_file_that_claims_to_begin_at_the_end_of_numbers_is_named_and_comes_to_an_end) {
  constexpr uint64_t kFar = ~uint64_t{0} - 4095;
  std::vector<std::byte> bytes = sound_[1];
  SegmentHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  header.first_position = kFar;
  header.checksum = XXH3_64bits(&header, offsetof(SegmentHeader, checksum));
  std::memcpy(bytes.data(), &header, sizeof(header));
  for (const std::string& name : {files_[1], segment_name(0, kFar)}) {
    if (name != files_[1]) {
      ASSERT_TRUE(disk_.open(name, OpenMode::kCreate));
    }
    disk_.replace(name, bytes);
    const auto alone = read_segment_alone(disk_, kLog, name);
    EXPECT_TRUE(!alone || !alone->damages.empty());
    const LogReading found = read();
    ASSERT_FALSE(found.damages.empty());
    EXPECT_THAT(found.damages[0].to_string(), HasSubstr("header is damaged"));
    (void)read(/*salvage=*/true);
    for (const uint64_t stamp : stamps_) ASSERT_LE(stamp, 10 * kStamps);
    disk_.replace(name, sound_[1]);
  }
}

TEST_F(LogDamaged, files_of_another_shard_or_store_are_named_and_none_of_their_records_is_handed_out) {
  const LogId others[] = {{.store = kLog.store, .shard = 1}, {.store = {std::byte{2}}, .shard = 0}};
  for (const LogId& other : others) {
    SimulatedDisk elsewhere{{}};
    write_log(elsewhere, other);
    const std::string theirs = segment_name(other.shard, kFirstPosition);
    disk_.replace(files_[0], elsewhere.bytes_of(theirs));
    const LogReading found = read();
    ASSERT_FALSE(found.damages.empty());
    EXPECT_THAT(found.damages[0].to_string(), HasSubstr("it belongs to another store or shard"));
    EXPECT_THAT(found.damages[0].path, HasSubstr(files_[0]));
    EXPECT_THAT(stamps_, SizeIs(0));
    ASSERT_NO_FATAL_FAILURE(judge_salvage(files_[0], 0, kSegmentBytes));
    disk_.replace(files_[0], sound_[0]);
  }
}

}  // namespace
}  // namespace refract::storage
