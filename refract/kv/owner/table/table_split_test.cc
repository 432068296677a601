// SPDX-License-Identifier: Apache-2.0
// What a split leaves behind: where entries stand afterwards, and what a crash in the middle of it loses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "refract/fabric/sim/interleavings.h"
#include "refract/kv/direct/direct_scan.h"
#include "refract/kv/direct/mapped_memory.h"
#include "refract/kv/owner/table/table.h"
#include "refract/kv/testing/test_space.h"

namespace refract::kv {
namespace {

using test::bytes_of;
using test::LongBucket;
using test::Space;
using test::text_of;

constexpr test::SpaceOptions kSmall{.chunks = 8, .chunks_max = 8};

class StoresOfASplit final : public StoreLog {
 public:
  void stored(Offset at, std::span<const std::byte> bytes) noexcept override {
    if (list != nullptr) list->stored(at, bytes);
  }
  sim::StoreList* list = nullptr;
};

// The two splits of one put: the bytes before them, and their stores.
struct RecordedSplit {
  StoresOfASplit recorder;
  Space space{kSmall, &recorder};
  LongBucket keys{space.table()};
  std::vector<std::byte> image{space.base(), space.base() + space.bytes()};
  sim::StoreList list{space.base()};

  RecordedSplit() {
    recorder.list = &list;
    EXPECT_TRUE(space.table().put(bytes_of("one more"), bytes_of("v"), {}).has_value());
    recorder.list = nullptr;
  }
  void apply(const sim::Store& store) { std::memcpy(image.data() + store.at.value, &store.word, 8); }
};

uint64_t line_of(Table& table, const std::string& key) {
  return table.standing(table.hashed(bytes_of(key))).slot_at.value / kLineBytes;
}

TEST(TableSplit, what_stays_comes_forward_into_the_first_line_and_the_line_behind_it_goes) {
  Space space(kSmall);
  Table& table = space.table();
  const LongBucket keys(table);
  const uint64_t first_line = line_of(table, keys.staying.front());
  for (const std::string& key : keys.coming) EXPECT_NE(line_of(table, key), first_line);
  const auto lines_of_bucket = [&] {
    Table::Hand hand;
    Table::SlotRoom room;
    (void)table.slots_at(hand, room);
    return room.lines;
  };
  EXPECT_EQ(lines_of_bucket(), 2U);
  ASSERT_TRUE(table.put(bytes_of("one more"), bytes_of("v"), {}).has_value());
  ASSERT_EQ(table.stats().buckets, 18U);
  for (const std::string& key : keys.staying) EXPECT_EQ(line_of(table, key), first_line) << key;
  EXPECT_EQ(lines_of_bucket(), 1U);
  EXPECT_FALSE(table.validate().has_value());
}

// Of the keys that a reader's first slot cannot settle most were behind a first line with room.
TEST(TableSplit, few_entries_stand_behind_a_first_line) {
  constexpr uint64_t kEntries = 60'000;
  Space space({.chunks = 24, .chunks_max = 24});
  Table& table = space.table();
  for (uint64_t i = 0; i < kEntries; ++i) {
    ASSERT_TRUE(table.put(bytes_of("key " + std::to_string(i)), bytes_of("v"), {}).has_value());
  }
  Table::Hand hand;
  Table::SlotRoom room;
  uint64_t behind = 0;
  do {
    for (const Table::Standing& standing : table.slots_at(hand, room)) {
      const Offset chunk{standing.slot_at.value / kChunkBytes * kChunkBytes};
      behind += space.heap().is_chunk_of(chunk, ChunkKind::kBuckets) ? 0 : 1;
    }
  } while (hand.bucket != 0 || hand.line != 0);
  std::printf("%lu of %lu entries stand behind the first line\n", behind, kEntries);
  EXPECT_LT(behind, kEntries * 3 / 100);
}

// Another table over the bytes as they are after so many of the stores.
void expect_recovered(const std::vector<std::byte>& image, const LongBucket& keys, size_t stores) {
  Space after(kSmall);
  std::memcpy(after.base(), image.data(), image.size());
  ASSERT_TRUE(after.try_restart().has_value()) << stores;
  ASSERT_FALSE(after.table().validate().has_value()) << stores;
  for (const auto* part : {&keys.staying, &keys.leaving}) {
    for (const std::string& key : *part) {
      const auto entry = after.table().find(bytes_of(key));
      ASSERT_TRUE(entry.has_value()) << key << " after " << stores << " stores";
      EXPECT_EQ(text_of(entry->value), "here");
    }
  }
  // Each once: it is gone when it is erased.
  for (const std::string& key : keys.staying) {
    ASSERT_TRUE(after.table().erase(bytes_of(key), 0).has_value());
    ASSERT_EQ(after.table().find(bytes_of(key)).code(), Code::kNotFound) << key << " after " << stores;
  }
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(after.table().put(bytes_of("later " + std::to_string(i)), bytes_of("v"), {}).has_value());
  }
  EXPECT_FALSE(after.table().validate().has_value()) << stores;
}

TEST(TableSplit, a_crash_between_any_two_stores_loses_nothing_and_leaves_nothing_twice) {
  RecordedSplit split;
  for (size_t applied = 0;; ++applied) {
    ASSERT_NO_FATAL_FAILURE(expect_recovered(split.image, split.keys, applied));
    if (applied == split.list.stores().size()) break;
    split.apply(split.list.stores()[applied]);
  }
}

// Between the two stores a reader's scan of the bucket finds it in both lines.
TEST(TableSplit, a_scan_lists_what_is_just_coming_forward_once) {
  RecordedSplit split;
  for (const sim::Store& store : split.list.stores()) {
    split.apply(store);
    MappedMemory memory(split.image.data(), split.image.size(), nullptr);
    TableView<MappedMemory> view(memory);
    DirectScan scan(view, split.space.clock());
    std::vector<std::string> listed;
    uint64_t cursor = 0;
    do {
      ASSERT_EQ(scan.next_bucket(cursor, [&](const ScannedKey& key) { listed.push_back(text_of(key.key)); }),
                Code::kOk);
    } while (cursor != 0);
    for (const std::string& key : split.keys.coming) EXPECT_EQ(std::ranges::count(listed, key), 1) << key;
  }
}

}  // namespace
}  // namespace refract::kv
