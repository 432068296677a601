// SPDX-License-Identifier: Apache-2.0
#include "refract/base/boot_id.h"

#include <gtest/gtest.h>

namespace refract {
namespace {

TEST(BootId, the_host_has_one_and_it_does_not_change) {
  const auto id = host_boot_id();
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(id, host_boot_id());
  EXPECT_NE(*id, BootId{});
}

TEST(BootId, bytes_come_in_the_order_written) {
  const auto id = parse_boot_id("00112233-4455-6677-8899-aabbccddeeff");
  ASSERT_TRUE(id.has_value());
  for (size_t i = 0; i < id->size(); ++i) EXPECT_EQ((*id)[i], static_cast<std::byte>(i * 0x11));
}

TEST(BootId, what_is_no_identifier_is_refused) {
  EXPECT_FALSE(parse_boot_id("").has_value());
  EXPECT_FALSE(parse_boot_id("00112233-4455-6677-8899-aabbccddee").has_value());
  EXPECT_FALSE(parse_boot_id("00112233-4455-6677-8899-aabbccddeeff00").has_value());
  EXPECT_FALSE(parse_boot_id("00112233-4455-6677-8899-aabbccddeexy").has_value());
  EXPECT_FALSE(parse_boot_id("00112233-4455-6677-8899-aabbccddeef").has_value());
}

}  // namespace
}  // namespace refract
