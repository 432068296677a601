// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/verbs/bounce_ring.h"

#include <gtest/gtest.h>

#include <deque>

#include "refract/base/prng.h"

namespace refract::fabric::verbs {
namespace {

TEST(BounceRing, places_in_use_never_overlap_and_all_comes_back) {
  constexpr size_t kBytes = 4096;
  struct Taken {
    size_t begin;
    size_t end;
    uint64_t mark;
  };
  BounceRing ring(kBytes);
  std::deque<Taken> taken;
  Prng prng(7);
  uint64_t refusals = 0;
  for (int round = 0; round < 100'000; ++round) {
    if (prng.below(3) == 0 && !taken.empty()) {
      ring.give_back(taken.front().mark);
      taken.pop_front();
      continue;
    }
    const size_t bytes = 1 + prng.below(kBytes / 2);
    const size_t begin = ring.take(bytes);
    if (begin == BounceRing::kNone) {
      ++refusals;
      ASSERT_FALSE(taken.empty()) << "an empty ring has room for half of it, wherever it stands";
      continue;
    }
    ASSERT_EQ(begin % BounceRing::kAlignment, 0u);
    ASSERT_LE(begin + bytes, kBytes) << "bytes lie behind each other";
    for (const Taken& other : taken) ASSERT_TRUE(begin + bytes <= other.begin || other.end <= begin);
    taken.push_back({begin, begin + bytes, ring.mark()});
  }
  EXPECT_GT(refusals, 0u);
}

}  // namespace
}  // namespace refract::fabric::verbs
