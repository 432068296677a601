// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/heap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "refract/base/prng.h"
#include "refract/base/units.h"

namespace refract {
namespace {

class Pins final : public PinSource {
 public:
  void collect(PinSet& set) noexcept override {
    for (const Offset at : held) set.add(at);
  }
  std::vector<Offset> held;
};

class HeapTest : public testing::Test {
 protected:
  static constexpr uint64_t kChunksMax = 64;

  HeapTest() : memory_(kChunksMax * kChunkBytes / 8), writer_(reinterpret_cast<std::byte*>(memory_.data())) {
    Heap::format(writer_, {.chunks_max = kChunksMax, .store_area_bytes = 4096, .hash_seed = 1});
    open(16);
  }

  void open(uint64_t chunks, Heap::Borders borders = Heap::Borders::kKept) {
    heap_ = std::make_unique<Heap>(writer_, pins_, borders);
    heap_->add({0}, chunks * kChunkBytes);
  }
  // Allocates and writes the bytes full, so that overlapping buffers are seen.
  Offset take(uint64_t bytes) {
    const auto at = heap_->allocate(bytes);
    EXPECT_TRUE(at) << bytes;
    if (!at) return {};
    EXPECT_EQ(at->value % kGranuleBytes, 0U);
    EXPECT_LE(at->value + bytes, heap_->end());
    return *at;
  }

  std::vector<uint64_t> memory_;
  Writer writer_;
  Pins pins_;
  std::unique_ptr<Heap> heap_;
};

TEST_F(HeapTest, live_buffers_never_overlap_and_everything_comes_back) {
  Prng prng(5);
  std::map<uint64_t, uint64_t> live;  // start -> bytes asked for
  const uint64_t free_at_first = heap_->stats().bytes_free;
  for (int step = 0; step < 20'000; ++step) {
    if (live.empty() || prng.chance(0.52)) {
      const uint64_t bytes = prng.chance(0.9) ? 1 + prng.below(3'000) : 1 + prng.below(300'000);
      const auto at = heap_->allocate(bytes);
      if (!at) continue;
      const auto next = live.lower_bound(at->value);
      if (next != live.end()) {
        ASSERT_LE(at->value + bytes, next->first);
      }
      if (next != live.begin()) {
        ASSERT_LE(std::prev(next)->first + std::prev(next)->second, at->value);
      }
      live[at->value] = bytes;
    } else {
      auto victim = live.lower_bound(prng.below(heap_->end()));
      if (victim == live.end()) victim = live.begin();
      if (prng.chance(0.5)) {
        heap_->release({victim->first}, victim->second);
      } else {
        heap_->retire({victim->first}, victim->second);
      }
      live.erase(victim);
    }
  }
  for (const auto& [start, bytes] : live) heap_->retire({start}, bytes);
  heap_->reclaim();
  EXPECT_EQ(heap_->stats().bytes_live, 0U);
  EXPECT_EQ(heap_->stats().bytes_retired, 0U);
  EXPECT_EQ(heap_->stats().buffers_live, 0U);
  // A buffer as large as everything that was free proves that chunks came back whole.
  EXPECT_TRUE(heap_->allocate(free_at_first - 3 * kChunkBytes));
}

TEST_F(HeapTest, a_pinned_buffer_is_not_reused_until_the_pin_is_gone) {
  const Offset pinned = take(100);
  pins_.held = {pinned};
  heap_->retire(pinned, 100);
  for (int i = 0; i < 1'000; ++i) {
    const Offset other = take(100);
    EXPECT_NE(other, pinned);
    heap_->retire(other, 100);
  }
  pins_.held.clear();
  heap_->reclaim();
  std::set<uint64_t> seen;
  for (int i = 0; i < 100; ++i) seen.insert(take(100).value);
  EXPECT_TRUE(seen.contains(pinned.value));
}

TEST_F(HeapTest, what_is_not_marked_live_is_free_after_recovery) {
  const Offset small = take(100);
  const Offset large = take(700'000);
  const Offset lost = take(700'000);
  const auto line = heap_->allocate_line();
  ASSERT_TRUE(line);
  open(16);
  heap_->begin_recovery();
  EXPECT_TRUE(heap_->mark_live(small, 100));
  EXPECT_TRUE(heap_->mark_live(large, 700'000));
  EXPECT_TRUE(heap_->mark_live_line(*line));
  heap_->end_recovery();
  EXPECT_EQ(heap_->stats().buffers_live, 2U);
  std::vector<Offset> taken;
  while (const auto at = heap_->allocate(700'000)) taken.push_back(*at);
  EXPECT_NE(std::find(taken.begin(), taken.end(), lost), taken.end());
  EXPECT_EQ(std::find(taken.begin(), taken.end(), large), taken.end());
}

TEST_F(HeapTest, recovery_refuses_what_no_heap_would_have_given_out) {
  const Offset small = take(100);
  open(16);
  heap_->begin_recovery();
  EXPECT_TRUE(heap_->mark_live(small, 100));
  EXPECT_FALSE(heap_->mark_live(small, 100)) << "twice";
  EXPECT_FALSE(heap_->mark_live(small.plus(16), 100)) << "not where a buffer starts";
  EXPECT_FALSE(heap_->mark_live(small, 5'000)) << "of another class";
  EXPECT_FALSE(heap_->mark_live({15 * kChunkBytes}, 100)) << "in a free chunk";
  EXPECT_FALSE(heap_->mark_live({900 * kChunkBytes}, 100)) << "outside";
  EXPECT_FALSE(heap_->mark_live({15 * kChunkBytes}, 100'000)) << "an extent in no extent chunk";
  EXPECT_FALSE(heap_->mark_live_line(small));
}

TEST_F(HeapTest, stamps_are_never_given_out_twice_however_often_it_restarts) {
  uint64_t last = 0;
  for (int restart = 0; restart < 5; ++restart) {
    for (int i = 0; i < 70'000; ++i) {
      const uint64_t stamp = heap_->next_stamp();
      ASSERT_GT(stamp, last);
      last = stamp;
    }
    open(16);
  }
}

TEST_F(HeapTest, an_extent_lies_in_one_region) {
  heap_->add({16 * kChunkBytes}, 4 * kChunkBytes);
  heap_->add({20 * kChunkBytes}, 4 * kChunkBytes);
  for (int round = 0; round < 3; ++round) {
    std::vector<Offset> taken;
    while (const auto at = heap_->allocate(3 * kChunkBytes - 10)) {
      for (const uint64_t border : {16 * kChunkBytes, 20 * kChunkBytes}) {
        EXPECT_FALSE(at->value < border && at->value + 3 * kChunkBytes - 10 > border);
      }
      taken.push_back(*at);
    }
    EXPECT_GE(taken.size(), 5U);
    for (const Offset at : taken) heap_->release(at, 3 * kChunkBytes - 10);
  }
}

TEST_F(HeapTest, values_leave_a_reserve_that_the_table_can_still_use) {
  while (heap_->allocate(60'000)) {
  }
  EXPECT_TRUE(heap_->allocate_line());
}

TEST_F(HeapTest, what_a_store_must_have_comes_from_the_reserve_where_values_have_all_the_rest) {
  const auto first = heap_->allocate_from_reserve(4096);
  ASSERT_TRUE(first);
  heap_->release(*first, 4096);
  EXPECT_EQ(heap_->allocate(4096), first) << "with room it is as any other";
  while (heap_->allocate(60'000)) {
  }
  while (heap_->allocate(4096)) {
  }
  const uint64_t free = heap_->stats().bytes_free;
  EXPECT_GT(free, 0U);
  const auto at = heap_->allocate_from_reserve(4096);
  ASSERT_TRUE(at);
  EXPECT_EQ(heap_->stats().bytes_free, free - kChunkBytes);
  heap_->begin_recovery();
  EXPECT_TRUE(heap_->mark_live(*at, 4096)) << "a restart finds it as a buffer of its class";
  heap_->end_recovery();
}

TEST(HeapHeader, damage_is_named_before_anything_is_followed) {
  std::vector<uint64_t> memory(4 * kChunkBytes / 8);
  Writer writer(reinterpret_cast<std::byte*>(memory.data()));
  const auto bytes = std::as_bytes(std::span(memory));
  EXPECT_EQ(Heap::check_header(bytes).code(), Code::kMalformed) << "all zero";
  Heap::format(writer, {.chunks_max = 4, .store_area_bytes = 64, .hash_seed = 1});
  EXPECT_EQ(Heap::check_header(bytes).code(), Code::kOk);
  EXPECT_EQ(Heap::check_header(bytes.first(100)).code(), Code::kMalformed);
  auto* header = reinterpret_cast<SpaceHeader*>(memory.data());
  header->layout_version = 99;
  EXPECT_EQ(Heap::check_header(bytes).code(), Code::kUnsupported);
  header->layout_version = kSpaceLayoutVersion;
  header->chunks_max = ~uint64_t{0};
  EXPECT_EQ(Heap::check_header(bytes).code(), Code::kCorrupt);
}

TEST(SizeClass, a_quarter_or_a_granule_is_the_most_that_a_buffer_wastes) {
  for (uint64_t bytes = 1; bytes <= kSlabBytesMax; ++bytes) {
    const uint64_t held = kClassBytes[size_class_of(bytes)];
    ASSERT_GE(held, bytes);
    ASSERT_LE(held, std::max({bytes + bytes / 4 + 1, bytes + kGranuleBytes, kSlabBytesMin})) << bytes;
  }
}

TEST_F(HeapTest, the_largest_free_run_ends_at_a_used_chunk_and_at_a_region) {
  const uint64_t first = heap_->largest_free_run();
  EXPECT_EQ(first, heap_->stats().bytes_free);
  heap_->add({heap_->end()}, 8 * kChunkBytes);
  // A run does not cross into the next region.
  EXPECT_EQ(heap_->largest_free_run(), std::max(first, 8 * kChunkBytes));
  const Offset low = take(3 * kChunkBytes);
  const Offset high = take(3 * kChunkBytes);
  heap_->release(low, 3 * kChunkBytes);
  EXPECT_LT(heap_->largest_free_run(), heap_->stats().bytes_free);
  EXPECT_GE(heap_->largest_free_run(), 3 * kChunkBytes);
  heap_->release(high, 3 * kChunkBytes);
  EXPECT_EQ(heap_->largest_free_run(), std::max(first, 8 * kChunkBytes));
}

TEST_F(HeapTest, stamps_that_were_skipped_are_not_given_after_a_restart_either) {
  heap_->skip_stamps_below(1'000'000);
  EXPECT_EQ(heap_->next_stamp(), 1'000'000U);
  heap_->skip_stamps_below(5);
  EXPECT_EQ(heap_->next_stamp(), 1'000'001U);
  open(16);
  EXPECT_GT(heap_->next_stamp(), 1'000'001U);
}

}  // namespace
}  // namespace refract
