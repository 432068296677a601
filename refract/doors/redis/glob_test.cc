// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/glob.h"

#include <gtest/gtest.h>

#include <string>

namespace refract::doors::redis {
namespace {

TEST(Glob, patterns_are_those_of_redis) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_TRUE(matches("h?llo", "hallo"));
  EXPECT_FALSE(matches("h?llo", "hllo"));
  EXPECT_TRUE(matches("h*llo", "heeeello"));
  EXPECT_TRUE(matches("h[ae]llo", "hallo"));
  EXPECT_FALSE(matches("h[ae]llo", "hillo"));
  EXPECT_TRUE(matches("h[^e]llo", "hallo"));
  EXPECT_FALSE(matches("h[^e]llo", "hello"));
  EXPECT_TRUE(matches("h[a-c]llo", "hbllo"));
  EXPECT_TRUE(matches("h[c-a]llo", "hbllo"));
  EXPECT_TRUE(matches("h[\\]]llo", "h]llo"));
  EXPECT_TRUE(matches("a\\*b", "a*b"));
  EXPECT_FALSE(matches("a\\*b", "axb"));
  EXPECT_TRUE(matches("*a*b*c*", "xxaxxbxxcxx"));
  EXPECT_FALSE(matches("*a*b*c", "abcd"));
  EXPECT_TRUE(matches("[abc", "a")) << "a set that does not end";
  EXPECT_TRUE(matches("MAX*", "maxmemory", /*ignores_case=*/true));
  EXPECT_FALSE(matches("MAX*", "maxmemory"));
  EXPECT_TRUE(matches(std::string("a\0*", 3), std::string("a\0b", 3)));
}

// Redis's own matcher takes minutes over this, and was bounded for it.
TEST(Glob, no_pattern_takes_longer_than_the_product_of_both_lengths) {
  std::string pattern;
  for (int i = 0; i < 2'000; ++i) pattern += "*a";
  EXPECT_FALSE(matches(pattern + "b", std::string(20'000, 'a')));
}

}  // namespace
}  // namespace refract::doors::redis
