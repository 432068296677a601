// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/store_name.h"

#include <gtest/gtest.h>

namespace refract {
namespace {

TEST(StoreName, keeps_one_to_eight_bytes_in_their_order) {
  EXPECT_EQ(StoreName::of("a").bits, 0x61U);
  EXPECT_EQ(StoreName::of("counters").bits, 0x73'72'65'74'6e'75'6f'63U);
  for (const char* text : {"a", "kv", "counters"}) EXPECT_EQ(StoreName::of(text).text(), text);
}

TEST(StoreName, tells_no_name_from_all_others) {
  EXPECT_EQ(StoreName{}, StoreName::of(""));
  EXPECT_EQ(StoreName{}.text(), "");
  EXPECT_NE(StoreName{}, StoreName::of("a"));
}

}  // namespace
}  // namespace refract
