// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/table/slots_by_chunk.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace refract::kv {
namespace {

constexpr auto kNoApproach = [](Slot) {};

Slot slot_in(uint64_t chunk, uint64_t granule) {
  const Slot slot = Slot::of({.stamp = 1, .buffer = {chunk * kChunkBytes + granule * kGranuleBytes}});
  EXPECT_EQ(slot.buffer().value / kChunkBytes, chunk);
  return slot;
}

TEST(SlotsByChunk, come_back_in_the_order_of_chunks_each_once) {
  std::mt19937_64 random(1);
  std::vector<uint64_t> expected;
  SlotsByChunk slots(9, 1'000);
  for (int i = 0; i < 1'000; ++i) {
    const Slot slot = slot_in(random() % 9, random() % 1'000);
    expected.push_back(slot.bits);
    ASSERT_TRUE(slots.add(slot));
  }
  EXPECT_FALSE(slots.add(slot_in(0, 0)));
  std::vector<uint64_t> seen;
  uint64_t last_chunk = 0;
  ASSERT_EQ(slots.drain(kNoApproach,
                        [&](Slot slot) {
                          EXPECT_GE(slot.buffer().value / kChunkBytes, last_chunk);
                          last_chunk = slot.buffer().value / kChunkBytes;
                          seen.push_back(slot.bits);
                          return Code::kOk;
                        }),
            Code::kOk);
  std::ranges::sort(expected);
  std::ranges::sort(seen);
  EXPECT_EQ(seen, expected);
}

TEST(SlotsByChunk, are_forgotten_once_given_and_end_at_the_first_refusal) {
  SlotsByChunk slots(2, 3);
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(slots.add(slot_in(1, 5)));
    EXPECT_TRUE(slots.add(slot_in(0, 7)));
    int seen = 0;
    EXPECT_EQ(slots.drain(kNoApproach,
                          [&](Slot) {
                            ++seen;
                            return Code::kOk;
                          }),
              Code::kOk);
    EXPECT_EQ(seen, 2);
  }
  EXPECT_TRUE(slots.add(slot_in(1, 5)));
  EXPECT_TRUE(slots.add(slot_in(0, 7)));
  EXPECT_EQ(slots.drain(kNoApproach, [](Slot) { return Code::kCorrupt; }), Code::kCorrupt);
}

TEST(SlotsByChunk, approaches_each_that_is_far_enough_before_it_visits_it) {
  SlotsByChunk slots(1, 100);
  for (uint64_t i = 0; i < 100; ++i) EXPECT_TRUE(slots.add(slot_in(0, i)));
  std::vector<uint64_t> approached;
  size_t visited = 0;
  (void)slots.drain([&](Slot slot) { approached.push_back(slot.bits); },
                    [&](Slot slot) {
                      ++visited;
                      EXPECT_EQ(std::ranges::find(approached, slot.bits) != approached.end(), visited > 16);
                      return Code::kOk;
                    });
  EXPECT_EQ(approached.size(), 84U);
}

}  // namespace
}  // namespace refract::kv
