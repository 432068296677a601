// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/common_string.h"

#include <gtest/gtest.h>

#include <string_view>

namespace refract::doors::redis {
namespace {

CommonString full(std::string_view one, std::string_view other, size_t cells = 1000) {
  CommonString common(one, other);
  while (!common.go_on(cells)) {
  }
  return common;
}

TEST(CommonString, the_longest_one_is_found_with_its_parts) {
  const CommonString common = full("ohmytext", "mynewtext");
  EXPECT_EQ(common.length(), 6U);
  const CommonString::Found found = common.find();
  EXPECT_EQ(found.text, "mytext");
  ASSERT_EQ(found.matches.size(), 2U);
  EXPECT_EQ(found.matches[0].first_of_one, 4U);
  EXPECT_EQ(found.matches[0].first_of_other, 5U);
  EXPECT_EQ(found.matches[0].bytes, 4U);
  EXPECT_EQ(found.matches[1].first_of_one, 2U);
  EXPECT_EQ(found.matches[1].first_of_other, 0U);
  EXPECT_EQ(found.matches[1].bytes, 2U);
}

TEST(CommonString, it_is_the_same_in_steps_of_any_size) {
  for (const size_t cells : {1U, 9U, 10U, 25U}) {
    EXPECT_EQ(full("ohmytext", "mynewtext", cells).find().text, "mytext") << cells;
  }
}

TEST(CommonString, there_may_be_none) {
  EXPECT_EQ(full("abc", "xyz").length(), 0U);
  EXPECT_TRUE(full("abc", "xyz").find().matches.empty());
  EXPECT_EQ(full("", "xyz").find().text, "");
  EXPECT_EQ(full("abc", "").length(), 0U);
  EXPECT_EQ(full("", "").length(), 0U);
}

}  // namespace
}  // namespace refract::doors::redis
