// SPDX-License-Identifier: Apache-2.0
// The index gives what a map would, through growth, removal and hashes that agree in all that it keeps.
#include "refract/kv/owner/table/slot_index.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "refract/base/prng.h"

namespace refract::kv::slot_index_test {
namespace {

using Model = std::multimap<uint64_t, uint64_t>;

std::set<uint64_t> places_of(const SlotIndex& index, uint64_t hash) {
  std::set<uint64_t> places;
  (void)index.find(hash, [&](uint64_t place) {
    places.insert(place);
    return false;
  });
  return places;
}

void expect_same(const SlotIndex& index, const Model& model) {
  ASSERT_EQ(index.size(), model.size());
  for (const auto& [hash, place] : model) {
    const auto found = index.find(hash, [&, wanted = place](uint64_t each) { return each == wanted; });
    ASSERT_EQ(found, place) << hash;
  }
}

// Adds and removes at random, from few hashes in ever more segments.
void play(SlotIndex& index, uint64_t seed, size_t most, uint64_t hash_mask) {
  Prng prng(seed);
  Model model;
  std::vector<std::pair<uint64_t, uint64_t>> all;
  for (size_t step = 0; step < 6 * most; ++step) {
    const bool grows = step < 3 * most;
    if (all.empty() || (all.size() < most && prng.chance(grows ? 0.7 : 0.3))) {
      const uint64_t hash = prng.next() & hash_mask;
      const uint64_t place = prng.below(uint64_t{1} << 30);
      index.add(hash, place);
      all.emplace_back(hash, place);
      model.emplace(hash, place);
    } else {
      const size_t which = prng.below(all.size());
      const auto [hash, place] = all[which];
      ASSERT_TRUE(index.remove(hash, place));
      all[which] = all.back();
      all.pop_back();
      const auto [first, last] = model.equal_range(hash);
      for (auto it = first; it != last; ++it) {
        if (it->second != place) continue;
        model.erase(it);
        break;
      }
    }
  }
  expect_same(index, model);
  for (const auto& [hash, place] : all) ASSERT_TRUE(index.remove(hash, place));
  EXPECT_EQ(index.size(), 0U);
  EXPECT_FALSE(index.remove(1, 1));
}

TEST(SlotIndex, gives_what_a_map_would_while_it_grows_and_shrinks) {
  SlotIndex index;
  play(index, 1, 20'000, ~uint64_t{0});
  EXPECT_EQ(index.bytes() / (SlotIndex::kWordsPerSegment * 8), 1U) << "an empty index takes no memory";
}

// Only the lowest of the kept bits differ: runs are long, and cross each other.
TEST(SlotIndex, keeps_words_apart_whose_hashes_crowd) {
  SlotIndex index;
  play(index, 2, 300, uint64_t{0x1f} << SlotIndex::kPlaceBits);
}

TEST(SlotIndex, goes_on_where_segments_can_be_split_no_more) {
  SlotIndex index(2);
  play(index, 3, 8'000, ~uint64_t{0});
}

TEST(SlotIndex, gives_every_place_of_a_hash_and_no_other) {
  SlotIndex index;
  for (uint64_t place = 0; place < 50; ++place) index.add(7, place);
  for (uint64_t place = 50; place < 1'000; ++place) index.add(mix(place), place);
  std::set<uint64_t> expected;
  for (uint64_t place = 0; place < 50; ++place) expected.insert(place);
  EXPECT_EQ(places_of(index, 7), expected);
}

// A word takes 8 bytes, in segments that are filled to 3/8 at least: docs/design/041-crowded-buckets.md.
TEST(SlotIndex, takes_no_more_than_twenty_two_bytes_an_entry) {
  SlotIndex index;
  for (uint64_t i = 0; i < 1'000'000; ++i) {
    index.add(mix(i), i);
    if (i < 10'000) continue;
    ASSERT_LT(index.bytes(), 22 * i);
  }
}

}  // namespace
}  // namespace refract::kv::slot_index_test
