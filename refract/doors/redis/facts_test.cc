// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/facts.h"

#include <gtest/gtest.h>

namespace refract::doors::redis {
namespace {

// Claim: the sums are those of all threads, and a reset takes what there was away, and nothing that comes.
TEST(AllCounts, are_summed_over_threads_since_the_last_reset) {
  AllCounts counts(3);
  for (size_t place = 0; place < 3; ++place) {
    counts.of(place).commands.fetch_add(10 + place);
    counts.of(place).bytes_out.fetch_add(100);
  }
  counts.of(1).hits.fetch_add(7);
  EXPECT_EQ(counts.sums().commands, 33U);
  EXPECT_EQ(counts.sums().bytes_out, 300U);
  EXPECT_EQ(counts.sums().hits, 7U);
  EXPECT_EQ(counts.sums().misses, 0U);
  EXPECT_EQ(counts.since({.expired = 5, .evicted = 3}).evicted, 3U);
  EXPECT_EQ(counts.since({.expired = 5}).expired, 5U);
  counts.reset({.expired = 5, .evicted = 3});
  counts.of(2).commands.fetch_add(1);
  EXPECT_EQ(counts.sums().commands, 1U);
  EXPECT_EQ(counts.sums().hits, 0U);
  EXPECT_EQ(counts.since({.expired = 7, .evicted = 4}).expired, 2U);
  EXPECT_EQ(counts.since({.expired = 7, .evicted = 4}).evicted, 1U);
  EXPECT_EQ(counts.since({.expired = 1}).expired, 0U) << "a later server has counted from 0";
}

}  // namespace
}  // namespace refract::doors::redis
