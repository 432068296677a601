// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/pins.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "refract/memory/remote_visible.h"

namespace refract {
namespace {

PinSet collected(const PinTable& table) {
  PinSet pins;
  collect_pins(table, pins);
  pins.seal();
  return pins;
}

TEST(Pins, every_pin_is_collected_until_it_is_given_back) {
  PinTable table{};
  PinWriter writer(&table);
  const int first = writer.pin({64}, 1);
  const int second = writer.pin({128}, 2);
  EXPECT_TRUE(collected(table).contains({64}));
  EXPECT_TRUE(collected(table).contains({128}));
  EXPECT_FALSE(collected(table).contains({192}));
  EXPECT_EQ(table.slot[first].stamp, 1u);
  writer.unpin(first);
  EXPECT_FALSE(collected(table).contains({64}));
  EXPECT_TRUE(collected(table).contains({128}));
  writer.unpin(second);
  EXPECT_TRUE(collected(table).empty());
}

TEST(Pins, one_buffer_pinned_twice_stays_until_both_are_gone) {
  PinTable table{};
  PinWriter writer(&table);
  const int first = writer.pin({64}, 1);
  const int second = writer.pin({64}, 1);
  EXPECT_NE(first, second);
  writer.unpin(first);
  EXPECT_TRUE(collected(table).contains({64}));
  writer.unpin(second);
  EXPECT_FALSE(collected(table).contains({64}));
}

TEST(Pins, a_full_table_refuses_and_serves_again_after_one_unpin) {
  PinTable table{};
  PinWriter writer(&table);
  for (size_t i = 0; i < kPinsMax; ++i) ASSERT_EQ(writer.pin({64 * (i + 1)}, i), static_cast<int>(i));
  EXPECT_EQ(writer.pin({8}, 0), -1);
  EXPECT_EQ(collected(table).size(), kPinsMax);
  writer.unpin(100);
  EXPECT_EQ(writer.pin({8}, 0), 100);
  EXPECT_TRUE(collected(table).contains({8}));
}

TEST(Pins, unpinning_what_is_not_pinned_changes_nothing) {
  PinTable table{};
  PinWriter writer(&table);
  const int index = writer.pin({64}, 1);
  for (const int wrong : {-1, index + 1, 255, 256, 1 << 20}) writer.unpin(wrong);
  EXPECT_EQ(writer.in_use(), 1u);
  EXPECT_TRUE(collected(table).contains({64}));
}

TEST(Pins, a_lying_count_is_bounded_by_the_table) {
  PinTable table{};
  for (PinSlot& slot : table.slot) slot.offset = 7;
  table.count = ~uint64_t{0};
  EXPECT_EQ(collected(table).size(), kPinsMax);
}

// Either the reader sees that the buffer was unlinked, or the collector sees the pin: never neither. The two
// threads race on one slot word and one table, as (P1) and (P2) say; step 2r - 1 starts round r, 2r ends it.
TEST(Pins, a_validated_pin_is_always_seen_by_the_collector) {
  constexpr uint64_t kRounds = 5'000;
  PinTable table{};
  PinWriter writer(&table);
  uint64_t slot = 0;
  std::atomic<uint64_t> step = 0;
  std::atomic<uint64_t> validated = 0;
  std::atomic<uint64_t> unpinned = 0;
  std::atomic<bool> held = false;
  const auto await = [](const std::atomic<uint64_t>& word, uint64_t value) {
    while (word.load() < value) std::this_thread::yield();
  };
  std::thread reader([&] {
    for (uint64_t round = 1; round <= kRounds; ++round) {
      await(step, 2 * round - 1);
      const int index = writer.pin({64}, round);
      held = observe_u64(&slot) == 64;
      validated = round;
      await(step, 2 * round);
      writer.unpin(index);
      unpinned = round;
    }
  });
  uint64_t lost = 0;
  PinSet pins;
  for (uint64_t round = 1; round <= kRounds; ++round) {
    publish_u64(&slot, 64);
    step = 2 * round - 1;
    publish_u64(&slot, 0);
    store_load_fence();
    pins.clear();
    collect_pins(table, pins);
    pins.seal();
    await(validated, round);
    if (held && !pins.contains({64})) ++lost;
    step = 2 * round;
    await(unpinned, round);
  }
  reader.join();
  EXPECT_EQ(lost, 0u);
}

}  // namespace
}  // namespace refract
