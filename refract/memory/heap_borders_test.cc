// SPDX-License-Identifier: Apache-2.0
// What lies across the border of two regions, where the heap may do so and where it may not.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "refract/memory/heap.h"

namespace refract {
namespace {

class NoPins final : public PinSource {
 public:
  void collect(PinSet&) noexcept override {}
};

// Three regions of 16, 4 and 4 chunks: where borders are crossed they are one of 24.
class BorderTest : public testing::Test {
 protected:
  static constexpr uint64_t kChunks = 24;
  static constexpr uint64_t kBorder = 16;
  static constexpr uint64_t kAcross = 18 * kChunkBytes - 10;  // Fits across the first border alone.
  static constexpr uint64_t kHalf = kChunkBytes / 2;

  void open(Heap::Borders borders) { open(borders, {kBorder, 4, 4}); }
  void open(Heap::Borders borders, std::initializer_list<uint64_t> regions) {
    heap_ = std::make_unique<Heap>(writer_, pins_, borders);
    for (const uint64_t chunks : regions) heap_->add({heap_->end()}, chunks * kChunkBytes);
  }
  // A space that was never used.
  void format() {
    std::ranges::fill(memory_, 0);
    Heap::format(writer_, {.chunks_max = kChunks, .store_area_bytes = 4096, .hash_seed = 1});
  }
  std::vector<Offset> take_all(uint64_t bytes) {
    std::vector<Offset> taken;
    while (const auto at = heap_->allocate(bytes)) taken.push_back(*at);
    return taken;
  }

  std::vector<uint64_t> memory_ = std::vector<uint64_t>(kChunks * kChunkBytes / 8);
  Writer writer_{reinterpret_cast<std::byte*>(memory_.data())};
  NoPins pins_;
  std::unique_ptr<Heap> heap_;
};

TEST_F(BorderTest, what_fits_only_across_a_border_is_allocated_where_borders_are_crossed) {
  format();
  open(Heap::Borders::kKept);
  EXPECT_FALSE(heap_->allocate(kAcross));
  open(Heap::Borders::kCrossed);
  EXPECT_EQ(heap_->largest_free_run(), heap_->stats().bytes_free);
  const auto at = heap_->allocate(kAcross);
  ASSERT_TRUE(at);
  EXPECT_LT(at->value, kBorder * kChunkBytes);
  EXPECT_GT(at->value + kAcross, kBorder * kChunkBytes);
  heap_->release(*at, kAcross);
  EXPECT_EQ(heap_->largest_free_run(), heap_->stats().bytes_free) << "its chunks are free again, as one run";
}

// Two free halves of chunks that meet at the border, while all else is in use.
TEST_F(BorderTest, free_runs_are_joined_across_a_border_where_borders_are_crossed) {
  for (const auto borders : {Heap::Borders::kKept, Heap::Borders::kCrossed}) {
    format();
    open(borders);
    std::vector<Offset> halves = take_all(kHalf);
    const auto meets = [](Offset at) {
      return at.value + kHalf == kBorder * kChunkBytes || at.value == kBorder * kChunkBytes;
    };
    EXPECT_EQ(std::ranges::count_if(halves, meets), 2);
    for (const Offset at : halves) {
      if (meets(at)) heap_->release(at, kHalf);
    }
    std::erase_if(halves, meets);
    const auto at = heap_->allocate(2 * kHalf);
    EXPECT_EQ(at.has_value(), borders == Heap::Borders::kCrossed);
    if (at) {
      EXPECT_EQ(at->value, kBorder * kChunkBytes - kHalf);
      heap_->release(*at, 2 * kHalf);
    }
    for (const Offset half : halves) heap_->release(half, kHalf);
    EXPECT_EQ(heap_->stats().bytes_live, 0U);
    EXPECT_EQ(heap_->stats().bytes_free, heap_->stats().bytes_total - kChunkBytes)
        << "the header's alone is not";
  }
}

TEST_F(BorderTest, recovery_marks_what_lies_across_a_border_however_the_regions_lie_then) {
  format();
  open(Heap::Borders::kCrossed);
  const auto at = heap_->allocate(kAcross);
  const auto lost = heap_->allocate(kChunkBytes);
  ASSERT_TRUE(at && lost);
  for (const auto regions : {std::initializer_list<uint64_t>{kChunks}, {kBorder, 4, 4}, {3, 1, 20}}) {
    open(Heap::Borders::kCrossed, regions);
    heap_->begin_recovery();
    EXPECT_TRUE(heap_->mark_live(*at, kAcross));
    EXPECT_FALSE(heap_->mark_live(*at, kAcross)) << "twice";
    heap_->end_recovery();
    EXPECT_EQ(heap_->stats().buffers_live, 1U);
    EXPECT_FALSE(heap_->allocate(kAcross));
    EXPECT_TRUE(heap_->is_chunk_of({lost->value / kChunkBytes * kChunkBytes}, ChunkKind::kFree));
  }
  heap_->release(*at, kAcross);
  EXPECT_TRUE(heap_->allocate(kAcross));
}

// As a damaged record may have them: none may be taken for a short run by its sums.
TEST_F(BorderTest, lengths_and_places_near_the_end_of_64_bits_are_neither_given_nor_recovered) {
  format();
  open(Heap::Borders::kCrossed);
  const auto at = heap_->allocate(kAcross);
  ASSERT_TRUE(at);
  constexpr uint64_t kAll = ~uint64_t{0};
  for (const uint64_t less : {uint64_t{0}, kExtentGranuleBytes - 1, kExtentGranuleBytes, kChunkBytes}) {
    EXPECT_FALSE(heap_->allocate(kAll - less)) << less;
  }
  heap_->begin_recovery();
  for (const uint64_t less : {uint64_t{0}, kExtentGranuleBytes - 1, kExtentGranuleBytes, kChunkBytes}) {
    EXPECT_FALSE(heap_->mark_live(*at, kAll - less)) << less;
    EXPECT_FALSE(heap_->mark_live({kAll - less}, kAcross)) << less;
    EXPECT_FALSE(heap_->mark_live({round_up(kAll - kAcross, kExtentGranuleBytes)}, kAcross + less)) << less;
  }
  EXPECT_TRUE(heap_->mark_live(*at, kAcross)) << "what is refused has changed nothing";
  heap_->end_recovery();
  EXPECT_EQ(heap_->stats().bytes_live, Heap::footprint(kAcross));
}

TEST_F(BorderTest, a_heap_that_keeps_borders_refuses_to_recover_what_crosses_one) {
  format();
  open(Heap::Borders::kCrossed);
  const auto at = heap_->allocate(kAcross);
  ASSERT_TRUE(at);
  open(Heap::Borders::kKept);
  heap_->begin_recovery();
  EXPECT_FALSE(heap_->mark_live(*at, kAcross));
}

TEST_F(BorderTest, a_run_of_chunks_is_cleared_across_a_border_where_borders_are_crossed) {
  for (const auto borders : {Heap::Borders::kKept, Heap::Borders::kCrossed}) {
    format();
    open(borders);
    std::vector<Offset> taken = take_all(kChunkBytes);
    // The emptiest four lie across the border: three of them are free.
    const auto is_early = [](Offset at) {
      const uint64_t chunk = at.value / kChunkBytes;
      return chunk + 2 >= kBorder && chunk < kBorder + 1;
    };
    for (const Offset at : taken) {
      if (is_early(at)) heap_->release(at, kChunkBytes);
    }
    std::erase_if(taken, is_early);
    const auto run = heap_->emptiest_run(4, 0);
    ASSERT_TRUE(run);
    const bool crosses = run->first < kBorder && run->first + 4 > kBorder;
    EXPECT_EQ(crosses, borders == Heap::Borders::kCrossed) << run->first;
    if (!crosses) continue;
    heap_->withhold(*run);
    std::vector<Offset> inside;
    for (uint64_t chunk = run->first; chunk < run->first + 4; ++chunk) heap_->occupants(chunk, inside);
    for (const Offset at : inside) {
      if (at.value >= run->first * kChunkBytes) heap_->release(at, kChunkBytes);
    }
    EXPECT_TRUE(heap_->is_free(*run));
    // The chunk that is kept for the table comes free with the others.
    for (const Offset at : taken) {
      if (at.value / kChunkBytes >= run->first + 4) heap_->release(at, kChunkBytes);
    }
    heap_->hand_back(*run);
    const auto at = heap_->allocate(4 * kChunkBytes - 10);
    ASSERT_TRUE(at);
    EXPECT_EQ(at->value, run->first * kChunkBytes);
  }
}

TEST_F(BorderTest, an_occupant_that_begins_in_the_region_before_is_found) {
  format();
  open(Heap::Borders::kCrossed);
  const auto at = heap_->allocate(kAcross);
  ASSERT_TRUE(at);
  std::vector<Offset> inside;
  heap_->occupants(kBorder + 1, inside);
  EXPECT_EQ(inside, std::vector<Offset>{*at});
}

}  // namespace
}  // namespace refract
