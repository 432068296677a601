// SPDX-License-Identifier: Apache-2.0
// A snapshot's file is there whole or not at all, and what was damaged later is found, named, and never
// handed out.
#include "refract/storage/snapshot/snapshot_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "refract/base/hash.h"
#include "refract/base/prng.h"
#include "refract/base/testing/golden.h"
#include "refract/storage/testing/simulated_disk.h"

namespace refract::storage {
namespace {

const SnapshotFacts kFacts{.store = {std::byte{7}},
                           .shard_index = 3,
                           .shard_count = 4,
                           .copies = 1,
                           .placement = 9,
                           .hash_seed = 42,
                           .stamp = 1'234,
                           .wall_ns = 1'700'000'000'000'000'000,
                           .entries_max = 9};
const std::string kName = "snapshot-003-00000000000000001234";

std::vector<std::byte> payload_of(uint64_t block, size_t bytes) {
  std::vector<std::byte> payload(bytes);
  Prng prng(block);
  for (std::byte& byte : payload) byte = static_cast<std::byte>(prng.next() >> 56);
  return payload;
}

// Blocks of so many bytes each; block i is of kind i and holds i + 1 entries.
Reported<SnapshotTotals> write_file(Disk& disk, const std::vector<size_t>& blocks,
                                    const SnapshotFacts& facts = kFacts) {
  auto writer = SnapshotWriter::create(disk, facts, {.writeback_bytes = 2'048});
  if (!writer) return report(writer.error());
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto written = (*writer)->write(i, static_cast<uint32_t>(i + 1), payload_of(i, blocks[i]));
    if (!written) return report(written.error());
  }
  return (*writer)->finish();
}

// What the file holds as far as it is handed out: nothing, or everything.
Reported<> read_file(Disk& disk, const std::vector<size_t>& blocks) {
  auto reader = SnapshotReader::open(disk, kName);
  if (!reader) return report(reader.error());
  auto file = (*reader)->open_file();
  if (!file) return report(file.error());
  EXPECT_EQ((*reader)->block_count(), blocks.size());
  std::vector<std::byte> room;
  for (size_t i = 0; i < (*reader)->block_count(); ++i) {
    const auto block = (*reader)->read(**file, i, room);
    if (!block) return report(block.error());
    const std::vector<std::byte> expected = payload_of(i, blocks[i]);
    EXPECT_EQ(block->kind, i);
    EXPECT_EQ(block->entries, i + 1);
    EXPECT_TRUE(std::ranges::equal(block->payload, expected)) << "block " << i;
  }
  return {};
}

const std::vector<size_t> kSmall{100, 449, 1};

TEST(SnapshotFile, gives_back_what_was_written) {
  SimulatedDisk disk({});
  const std::vector<size_t> blocks{1, 448, 449, 5'000, kSnapshotPayloadMax};
  const auto totals = write_file(disk, blocks);
  ASSERT_TRUE(totals) << totals.error().to_string();
  EXPECT_EQ(totals->blocks, 5U);
  EXPECT_EQ(totals->entries, 15U);
  EXPECT_EQ(totals->file_bytes, disk.bytes_of(kName).size());
  const auto read = read_file(disk, blocks);
  EXPECT_TRUE(read) << read.error().to_string();
  const auto reader = SnapshotReader::open(disk, kName);
  ASSERT_TRUE(reader);
  EXPECT_TRUE((*reader)->verify());
  EXPECT_EQ((*reader)->facts().stamp, kFacts.stamp);
  EXPECT_EQ((*reader)->facts().store, kFacts.store);
  EXPECT_EQ((*reader)->facts().copies, kFacts.copies);
  EXPECT_EQ((*reader)->facts().placement, kFacts.placement);
  EXPECT_EQ((*reader)->facts().entries_max, kFacts.entries_max);
  EXPECT_EQ((*reader)->totals().entries, 15U);
}

TEST(SnapshotFile, of_an_empty_table_is_a_file_too) {
  SimulatedDisk disk({});
  ASSERT_TRUE(write_file(disk, {}));
  EXPECT_TRUE(read_file(disk, {}));
}

TEST(SnapshotFile, a_flipped_bit_is_found_wherever_it_is) {
  SimulatedDisk disk({});
  ASSERT_TRUE(write_file(disk, kSmall));
  const uint64_t bits = disk.bytes_of(kName).size() * 8;
  for (uint64_t bit = 0; bit < bits; ++bit) {
    disk.flip_bit(kName, bit);
    const auto read = read_file(disk, kSmall);
    ASSERT_FALSE(read) << "bit " << bit;
    const std::string what = read.error().what;
    ASSERT_NE(what.find(disk.path_of(kName)), std::string::npos) << what;
    ASSERT_NE(what.find(" at byte "), std::string::npos) << what;
    disk.flip_bit(kName, bit);
  }
  EXPECT_TRUE(read_file(disk, kSmall));
}

TEST(SnapshotFile, one_cut_anywhere_is_found) {
  SimulatedDisk disk({});
  ASSERT_TRUE(write_file(disk, kSmall));
  const std::vector<std::byte> whole = disk.bytes_of(kName);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    disk.replace(kName, std::span(whole).first(bytes));
    ASSERT_FALSE(read_file(disk, kSmall)) << bytes;
  }
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  disk.replace(kName, longer);
  EXPECT_FALSE(read_file(disk, kSmall));
}

TEST(SnapshotFile, blocks_of_another_file_or_place_are_found) {
  SimulatedDisk disk({});
  SnapshotFacts other = kFacts;
  other.stamp = 1'235;
  ASSERT_TRUE(write_file(disk, kSmall, other));
  const std::vector<std::byte> foreign = disk.bytes_of(snapshot_name(3, 1'235));
  ASSERT_TRUE(write_file(disk, kSmall));
  std::vector<std::byte> bytes = disk.bytes_of(kName);
  std::copy_n(foreign.begin() + 512, 512, bytes.begin() + 512);
  disk.replace(kName, bytes);
  EXPECT_FALSE(read_file(disk, kSmall));

  // The last block, which is one sector, in the place of the first.
  bytes = disk.bytes_of(kName);
  std::copy_n(bytes.begin() + 4 * 512, 512, bytes.begin() + 512);
  disk.replace(kName, bytes);
  EXPECT_FALSE(read_file(disk, kSmall));
}

TEST(SnapshotFile, another_version_is_refused_with_a_sentence) {
  SimulatedDisk disk({});
  ASSERT_TRUE(write_file(disk, kSmall));
  std::vector<std::byte> bytes = disk.bytes_of(kName);
  SnapshotHeader header{};
  std::memcpy(&header, bytes.data(), sizeof(header));
  header.version = 9;
  header.checksum = XXH3_64bits_withSeed(&header, sizeof(header) - 8, 0);
  std::memcpy(bytes.data(), &header, sizeof(header));
  disk.replace(kName, bytes);
  const auto reader = SnapshotReader::open(disk, kName);
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().code, Code::kUnsupported);
  EXPECT_NE(reader.error().what.find("version 9, this program reads version 2"), std::string::npos);
}

TEST(SnapshotFile, salvage_hands_out_the_blocks_that_are_sound) {
  SimulatedDisk disk({});
  const std::vector<size_t> blocks{100, 2'000, 300, 400};
  ASSERT_TRUE(write_file(disk, blocks));
  // The second block's header, and a byte of the third's payload.
  disk.flip_bit(kName, (2 * 512 + 3) * 8);
  disk.flip_bit(kName, (7 * 512 + 80) * 8);
  EXPECT_FALSE(SnapshotReader::open(disk, kName));
  const auto reader = SnapshotReader::salvage(disk, kName);
  ASSERT_TRUE(reader) << reader.error().to_string();
  ASSERT_EQ((*reader)->block_count(), 3U);
  // The hole; the footer is sound, and counts what is not there.
  ASSERT_EQ((*reader)->damages().size(), 1U);
  EXPECT_EQ((*reader)->entries_wanted(), 1U + 2 + 3 + 4);
  EXPECT_EQ((*reader)->damages()[0].offset, 2U * 512);
  EXPECT_EQ((*reader)->damages()[0].bytes, 5U * 512);
  auto file = (*reader)->open_file();
  ASSERT_TRUE(file);
  std::vector<std::byte> room;
  EXPECT_TRUE((*reader)->read(**file, 0, room));
  EXPECT_FALSE((*reader)->read(**file, 1, room));
  const auto last = (*reader)->read(**file, 2, room);
  ASSERT_TRUE(last);
  EXPECT_TRUE(std::ranges::equal(last->payload, payload_of(3, 400)));
}

TEST(SnapshotFile, is_there_whole_or_not_at_all_after_a_crash_at_any_moment) {
  uint64_t there = 0;
  uint64_t absent = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    for (uint64_t operation = 1;; ++operation) {
      SimulatedDisk disk({.seed = seed * 1'000 + operation});
      disk.die_at(operation);
      const bool is_promised = write_file(disk, kSmall).has_value();
      const bool is_over = !disk.is_dead();
      disk.crash();
      const auto removed = remove_unfinished_snapshots(disk);
      ASSERT_TRUE(removed);
      const auto names = list_snapshots(disk);
      ASSERT_TRUE(names);
      ASSERT_EQ(disk.list()->size(), names->size()) << "something else was left";
      ASSERT_TRUE(!is_promised || names->size() == 1) << "seed " << seed << " operation " << operation;
      if (!names->empty()) {
        const auto read = read_file(disk, kSmall);
        ASSERT_TRUE(read) << "seed " << seed << " operation " << operation << ": " << read.error().what;
      }
      ++(names->empty() ? absent : there);
      if (is_over) break;
    }
  }
  EXPECT_GT(there, 60U);
  EXPECT_GT(absent, 60U);
}

TEST(SnapshotFile, leaves_nothing_where_the_disk_is_full_or_a_sync_fails) {
  SimulatedDisk disk({});
  disk.set_capacity(2'000);
  const auto full = write_file(disk, kSmall);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::kNoSpace);
  EXPECT_TRUE(disk.list()->empty());
  disk.set_capacity(1'000'000);
  disk.fail_next_syncs(1);
  EXPECT_FALSE(write_file(disk, kSmall));
  EXPECT_TRUE(disk.list()->empty());
  EXPECT_TRUE(write_file(disk, kSmall));
}

TEST(SnapshotFile, names_sort_as_stamps_do) {
  SimulatedDisk disk({});
  for (const uint64_t stamp : {900ULL, 1'000ULL, 99ULL}) {
    SnapshotFacts facts = kFacts;
    facts.stamp = stamp;
    ASSERT_TRUE(write_file(disk, {10}, facts));
  }
  ASSERT_TRUE(disk.open("snapshot-003-old", OpenMode::kCreate));
  const auto names = list_snapshots(disk);
  ASSERT_TRUE(names);
  ASSERT_EQ(names->size(), 3U);
  EXPECT_EQ(names->at(0).stamp, 99U);
  EXPECT_EQ(names->at(2).stamp, 1'000U);
  EXPECT_EQ(names->at(2).shard_index, 3U);
  EXPECT_EQ(SnapshotWriter::create(disk, kFacts, {})->get()->name(), kName);
}

// The page's example: one entry, key "color", value "blue", as the key-value store lays it out.
TEST(SnapshotFile, has_the_bytes_that_its_page_shows) {
  SimulatedDisk disk({});
  const unsigned char entry[] = {0x39, 0x30, 0,   0,   0,   0,   0,   0,   4,   0, 0, 0, 5, 0, 0, 0,
                                 'c',  'o',  'l', 'o', 'r', 'b', 'l', 'u', 'e', 0, 0, 0, 0, 0, 0, 0};
  SnapshotFacts facts = kFacts;
  facts.stamp = 12'346;
  auto writer = SnapshotWriter::create(disk, facts, {});
  ASSERT_TRUE(writer);
  ASSERT_TRUE((*writer)->write(1, 1, std::as_bytes(std::span(entry))));
  ASSERT_TRUE((*writer)->finish());
  const std::vector<std::byte> bytes = disk.bytes_of(snapshot_name(3, 12'346));
  const std::vector<golden::Line> lines =
      golden::lines_of(std::string(REFRACT_SOURCE_DIR) + "/docs/formats/snapshot.md", "## A file in hex");
  std::string shown;
  for (size_t at = 0; at < bytes.size(); at += 8) {
    const auto word = std::span(bytes).subspan(at, 8);
    if (std::ranges::all_of(word, [](std::byte byte) { return byte == std::byte{0}; })) continue;
    char text[24];
    (void)std::snprintf(text, sizeof(text), "%04zx", at);
    shown += text;
    for (const std::byte byte : word) {
      (void)std::snprintf(text, sizeof(text), " %02x", std::to_integer<unsigned>(byte));
      shown += text;
    }
    shown += '\n';
  }
  EXPECT_EQ(golden::image_of(lines, bytes.size()), bytes) << shown;
}

}  // namespace
}  // namespace refract::storage
