// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/range.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace refract::doors::redis {
namespace {

TEST(Range, both_ends_are_included_and_negative_ones_count_from_the_end) {
  EXPECT_EQ(range_of("hello", 0, 0), "h");
  EXPECT_EQ(range_of("hello", 1, 3), "ell");
  EXPECT_EQ(range_of("hello", 0, -1), "hello");
  EXPECT_EQ(range_of("hello", -3, -2), "ll");
  EXPECT_EQ(range_of("hello", -1, 4), "o");
}

TEST(Range, what_is_beyond_the_value_is_cut) {
  EXPECT_EQ(range_of("hello", 3, 100), "lo");
  EXPECT_EQ(range_of("hello", -100, 1), "he");
  EXPECT_EQ(range_of("hello", -100, -50), "h") << "both are before the first byte, in their order";
  EXPECT_EQ(range_of("hello", INT64_MIN, INT64_MAX), "hello");
}

TEST(Range, there_may_be_nothing_in_it) {
  EXPECT_EQ(range_of("hello", 3, 1), "");
  EXPECT_EQ(range_of("hello", -50, -100), "");
  EXPECT_EQ(range_of("hello", 5, 5), "");
  EXPECT_EQ(range_of("hello", -2, -3), "");
  EXPECT_EQ(range_of("", 0, -1), "");
  EXPECT_EQ(range_of("", INT64_MIN, INT64_MAX), "");
}

}  // namespace
}  // namespace refract::doors::redis
