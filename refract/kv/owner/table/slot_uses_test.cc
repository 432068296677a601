// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/table/slot_uses.h"

#include <gtest/gtest.h>

#include <vector>

namespace refract::kv {
namespace {

constexpr Offset kTable{3 * kChunkBytes};

Offset slot(uint64_t index) {
  return kTable.plus(index * sizeof(Slot));
}

struct Uses {
  explicit Uses(EvictionPolicy policy, uint64_t count) : entries(count), uses(policy) {
    uses.count_by(&entries);
    for (uint64_t i = 0; i < count; ++i) uses.stored(slot(i));
  }
  // So many rounds of uses of other entries.
  void pass(uint64_t rounds) {
    for (uint64_t i = 0; i < rounds * entries; ++i) uses.used(slot(entries + i % 64));
  }
  uint64_t entries;
  SlotUses uses;
};

TEST(SlotUses, what_was_used_longer_ago_is_idler) {
  Uses given(EvictionPolicy::kLeastRecentlyUsed, 1'000);
  given.uses.used(slot(7));
  given.pass(1);
  given.uses.used(slot(8));
  given.pass(1);
  EXPECT_GT(given.uses.idleness(slot(0)), given.uses.idleness(slot(7)));
  EXPECT_GT(given.uses.idleness(slot(7)), given.uses.idleness(slot(8)));
}

TEST(SlotUses, what_was_used_more_often_is_busier) {
  Uses given(EvictionPolicy::kLeastOftenUsed, 1'000);
  for (int i = 0; i < 40; ++i) given.uses.used(slot(1));
  for (int i = 0; i < 400; ++i) given.uses.used(slot(2));
  given.pass(2);
  EXPECT_GT(given.uses.idleness(slot(0)), given.uses.idleness(slot(1)));
  EXPECT_GT(given.uses.idleness(slot(1)), given.uses.idleness(slot(2)));
  // Of those used as often it is the one that was used longer ago.
  EXPECT_GT(given.uses.idleness(slot(5)), given.uses.idleness(slot(1)));
  given.uses.stored(slot(9));
  EXPECT_GT(given.uses.idleness(slot(5)), given.uses.idleness(slot(9)));
}

TEST(SlotUses, a_count_says_about_how_often_however_it_came_together) {
  Uses given(EvictionPolicy::kLeastOftenUsed, 1'000);
  for (int i = 0; i < 8'000; ++i) given.uses.used(slot(1));
  for (uint64_t i = 0; i < 8'000 / reads_per_use(EvictionPolicy::kLeastOftenUsed); ++i) {
    given.uses.sampled(slot(2));
  }
  const auto count = [&](uint64_t index) { return 127 - (given.uses.idleness(slot(index)) >> 9); };
  // Eight steps double it.
  EXPECT_NEAR(count(1), count(2), 8);
  EXPECT_GT(count(1), 70u);
}

TEST(SlotUses, a_sampled_use_protects_for_longer) {
  Uses given(EvictionPolicy::kLeastRecentlyUsed, 1'000);
  given.uses.sampled(slot(1));
  given.uses.used(slot(2));
  given.pass(3);
  EXPECT_LT(given.uses.idleness(slot(1)) * 4, given.uses.idleness(slot(2)));
  // Not the entry that comes behind it.
  given.uses.stored(slot(1));
  given.uses.used(slot(2));
  given.pass(3);
  EXPECT_NEAR(given.uses.idleness(slot(1)), given.uses.idleness(slot(2)), 2);
}

// Where words did not grow older, ages would wrap round after 128 rounds, or 64.
TEST(SlotUses, what_is_never_used_again_stays_old) {
  for (const auto policy : {EvictionPolicy::kLeastRecentlyUsed, EvictionPolicy::kLeastOftenUsed}) {
    Uses given(policy, 500);
    for (int round = 0; round < 300; ++round) {
      given.pass(1);
      given.uses.stored(slot(1));
      ASSERT_GT(given.uses.idleness(slot(0)), given.uses.idleness(slot(1))) << round;
    }
  }
}

TEST(SlotUses, what_was_busy_once_can_go) {
  Uses given(EvictionPolicy::kLeastOftenUsed, 500);
  for (int i = 0; i < 1'000; ++i) given.uses.used(slot(1));
  given.pass(5'000);
  given.uses.stored(slot(2));
  given.uses.used(slot(2));
  EXPECT_GE(given.uses.idleness(slot(1)), given.uses.idleness(slot(2)));
}

TEST(SlotUses, go_with_an_entry_that_moves) {
  Uses given(EvictionPolicy::kLeastOftenUsed, 1'000);
  const Offset elsewhere{9 * kChunkBytes + 64};
  for (int i = 0; i < 100; ++i) given.uses.used(slot(1));
  given.uses.moved(slot(1), elsewhere);
  EXPECT_EQ(given.uses.idleness(elsewhere), given.uses.idleness(slot(1)));
}

}  // namespace
}  // namespace refract::kv
