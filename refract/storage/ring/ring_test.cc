// SPDX-License-Identifier: Apache-2.0
// What was appended to a ring is found in it by the log, and by the process that takes the ring up after a
// crash.
#include "refract/storage/ring/ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/testing/needed.h"
#include "refract/memory/testing/fake_system.h"
#include "refract/storage/testing/test_ring.h"

namespace refract::storage::ring_test {
namespace {

constexpr StoreId kStore = {std::byte{7}};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// In memory, as a node has it whose folder keeps none.
Ring some_ring() {
  Ring ring = test::needed(
      Ring::open(test::needed(RingFile::make_in_memory({.store = kStore, .shard = 3}, kRingBytesMin))));
  ring.begin(4096);
  ring.set_in_use();
  return ring;
}

Ring begun(const KeptRing& kept) {
  Ring ring = test::needed(Ring::open(*kept.file()));
  ring.begin(4096);
  ring.set_in_use();
  return ring;
}

void append(Ring& ring, uint64_t stamp, std::string_view key, std::string_view value) {
  const Record record = {.position = ring.log_end(),
                         .stamp = stamp,
                         .key = bytes_of(key),
                         .value = bytes_of(value),
                         .value_bytes = value.size()};
  ASSERT_TRUE(ring.has_room(stored_bytes(record.form, key.size(), value.size())));
  ring.append(record);
}

// Takes one record as the log does; nothing where there is none.
std::optional<Record> take_one(Ring& ring) {
  const RingMark mark = ring.mark();
  const uint64_t there = ring.observe_appended() - mark.taken;
  if (there == 0) return std::nullopt;
  Record record;
  EXPECT_EQ(decode_record(ring.bytes_at(mark.taken, there), mark.log_position, ring.key_of_log(), record),
            RecordFault::kNone);
  ring.take({.taken = mark.taken + stored_bytes(record.form, record.key.size(), record.value_bytes),
             .log_position = mark.log_position + log_bytes(record.key.size(), record.value_bytes)});
  return record;
}

TEST(Ring, hands_records_over_in_order_through_many_rounds_of_its_memory) {
  Ring ring = some_ring();
  Prng chance(1);
  const std::string letters(200'000, 'v');
  uint64_t taken = 0;
  for (uint64_t stamp = 1; stamp <= 2000; ++stamp) {
    const uint64_t size = chance.below(10'000);
    while (!ring.has_room(log_bytes(3, size))) ASSERT_EQ(take_one(ring)->stamp, ++taken);
    append(ring, stamp, "key", std::string_view(letters).substr(0, size));
  }
  while (const std::optional<Record> record = take_one(ring)) ASSERT_EQ(record->stamp, ++taken);
  EXPECT_EQ(taken, 2000);
  EXPECT_GT(ring.appended(), 5 * ring.bytes()) << "or nothing has wrapped";
  EXPECT_EQ(ring.mark().log_position, ring.log_end());
}

// One thread appends, the other takes; the thread sanitizer watches.
TEST(Ring, is_written_by_one_thread_and_emptied_by_another) {
  Ring ring = some_ring();
  constexpr uint64_t kRecords = 20'000;
  const std::string letters(1000, 'v');
  std::thread log([&] {
    for (uint64_t stamp = 1; stamp <= kRecords;) {
      const std::optional<Record> record = take_one(ring);
      if (!record) {
        std::this_thread::yield();
        continue;
      }
      ASSERT_EQ(record->stamp, stamp);
      ASSERT_EQ(record->value.size(), stamp % 1000);
      ++stamp;
    }
  });
  for (uint64_t stamp = 1; stamp <= kRecords; ++stamp) {
    while (!ring.has_room(log_bytes(3, stamp % 1000))) std::this_thread::yield();
    append(ring, stamp, "key", std::string_view(letters).substr(0, stamp % 1000));
  }
  log.join();
  EXPECT_EQ(ring.mark().taken, ring.appended());
}

TEST(Ring, taken_up_after_its_server_died_has_what_was_not_taken_and_goes_on_behind_it) {
  const test::Folder folder;
  KeptRing kept(folder.path(), kStore, 3);
  uint64_t end = 0;
  {
    Ring ring = begun(kept);
    for (uint64_t stamp = 1; stamp <= 10; ++stamp) append(ring, stamp, "key", "value");
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(take_one(ring));
    const Record large = {.form = RecordForm::kReference,
                          .position = ring.log_end(),
                          .stamp = 11,
                          .key = bytes_of("large"),
                          .value_bytes = 100'000,
                          .reference = 64};
    ring.append(large);
    end = ring.log_end();
  }
  ASSERT_TRUE(kept.take_up_again());
  Ring ring = test::needed(Ring::open(*kept.file()));
  EXPECT_EQ(ring.log_end(), end);
  ASSERT_TRUE(ring.last_record());
  EXPECT_EQ(ring.last_record()->stamp, 11);
  EXPECT_EQ(ring.last_record()->reference, 64);
  append(ring, 12, "key", "value");
  for (uint64_t stamp = 5; stamp <= 12; ++stamp) ASSERT_EQ(take_one(ring)->stamp, stamp);
  EXPECT_FALSE(take_one(ring));
  EXPECT_EQ(ring.last_record()->stamp, 12) << "though it was taken";
}

// The server dies after each word of an append that a crash can separate.
TEST(Ring, an_append_that_a_death_cut_short_has_left_no_record) {
  const test::Folder folder;
  KeptRing kept(folder.path(), kStore, 3);
  {
    Ring ring = begun(kept);
    append(ring, 1, "key", "value");
  }
  {
    std::fstream file(kept.path(), std::ios::in | std::ios::out | std::ios::binary);
    uint64_t appended = 0;
    file.seekg(offsetof(RingHeader, appended));
    file.read(reinterpret_cast<char*>(&appended), sizeof(appended));
    file.seekp(offsetof(RingHeader, last));
    file.write(reinterpret_cast<const char*>(&appended), sizeof(appended));
    file.seekp(static_cast<std::streamoff>(4096 + appended));
    file << "half a rec";
  }
  ASSERT_TRUE(kept.take_up_again());
  Ring ring = test::needed(Ring::open(*kept.file()));
  EXPECT_FALSE(ring.last_record()) << "the one before had been dealt with";
  EXPECT_EQ(take_one(ring)->stamp, 1);
  EXPECT_FALSE(take_one(ring));
}

TEST(Ring, remembers_for_the_next_server_that_the_log_has_failed) {
  const test::Folder folder;
  KeptRing kept(folder.path(), kStore, 3);
  {
    begun(kept).set_failed(true);
  }
  ASSERT_TRUE(kept.take_up_again());
  {
    Ring ring = test::needed(Ring::open(*kept.file()));
    EXPECT_TRUE(ring.failed());
    EXPECT_FALSE(ring.is_lost());
    ring.set_failed(false);
  }
  EXPECT_FALSE(Ring::open(*kept.file()).value().failed());
}

TEST(Ring, holds_nothing_before_it_is_in_use_and_when_it_has_been_emptied) {
  const test::Folder folder;
  KeptRing kept(folder.path(), kStore, 3);
  {
    Ring ring = test::needed(Ring::open(*kept.file()));
    EXPECT_FALSE(ring.is_in_use());
    ring.begin(4096);
    // A server that dies here has appended nothing.
    EXPECT_FALSE(Ring::open(*kept.file()).value().is_in_use());
    ring.set_in_use();
    append(ring, 1, "key", "value");
  }
  EXPECT_TRUE(Ring::open(*kept.file()).value().is_in_use());
  EXPECT_TRUE(Ring::open_emptied(*kept.file()).value().is_lost());
  EXPECT_EQ(kept.take_up_again().error().code, Code::kCorrupt);
}

// Each bit of the used part of the file, flipped: refused, or without effect on any record.
TEST(Ring, with_any_bit_flipped_hands_out_nothing_that_was_not_appended) {
  const test::Folder folder;
  KeptRing kept(folder.path(), kStore, 3);
  uint64_t used = 0;
  {
    Ring ring = begun(kept);
    append(ring, 1, "first", "value");
    append(ring, 2, "second", "value");
    used = 4096 + ring.appended();
  }
  const int file = ::open(kept.path().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  uint64_t refused = 0;
  for (uint64_t byte = 0; byte < used; ++byte) {
    // Where it lies is no part of what it holds.
    if (byte == offsetof(RingHeader, home)) byte = offsetof(RingHeader, last);
    if (byte == offsetof(RingHeader, reserved_append)) byte = offsetof(RingHeader, mark_index);
    if (byte == offsetof(RingHeader, reserved_end)) byte = 4096;
    char sound = 0;
    ASSERT_EQ(::pread(file, &sound, 1, static_cast<off_t>(byte)), 1);
    const char flipped = static_cast<char>(sound ^ (1 << (byte % 8)));
    ASSERT_EQ(::pwrite(file, &flipped, 1, static_cast<off_t>(byte)), 1);
    const Reported<> taken = kept.take_up_again();
    Reported<Ring> ring = taken ? Ring::open(*kept.file()) : report(taken.error());
    if (!ring) ++refused;
    while (ring) {
      const std::optional<Record> record = take_one(*ring);
      if (!record) break;
      ASSERT_LE(record->stamp, 2) << byte;
      ASSERT_TRUE(std::ranges::equal(record->value, bytes_of("value"))) << byte;
    }
    // What the taking has changed is put back with the byte.
    RingHeader header = {};
    ASSERT_EQ(::pread(file, &header, sizeof(header), 0), sizeof(header));
    header.mark_index = 0;
    header.marks[0] = {.taken = 0, .log_position = 4096};
    ASSERT_EQ(::pwrite(file, &header, sizeof(header), 0), sizeof(header));
    if (byte < offsetof(RingHeader, mark_index) || byte >= offsetof(RingHeader, reserved_take)) {
      ASSERT_EQ(::pwrite(file, &sound, 1, static_cast<off_t>(byte)), 1);
    }
  }
  ::close(file);
  EXPECT_GT(refused, 2 * 64);
}

}  // namespace
}  // namespace refract::storage::ring_test
