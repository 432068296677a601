// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/remote/remote_space.h"

#include <gtest/gtest.h>

namespace refract::kv {
namespace {

wire::RegionEntry entry(uint64_t start, uint64_t bytes, uint16_t region) {
  return {.start = start, .bytes = bytes, .address = RemotePointer::at(region, 0x100).bits, .key = region};
}

TEST(RemoteSpace, an_offset_is_reached_in_the_region_that_holds_it) {
  RemoteSpace space;
  ASSERT_TRUE(space.add(entry(0, 0x1000, 1)));
  ASSERT_TRUE(space.add(entry(0x1000, 0x4000, 2)));
  const auto first = space.find({0xff8}, 8);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->remote.address, RemotePointer::at(1, 0x100 + 0xff8));
  EXPECT_EQ(first->remote.key.bits, 1u);
  EXPECT_EQ(first->bytes_left, 8u);
  const auto second = space.find({0x1000}, 0x4000);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->remote.address, RemotePointer::at(2, 0x100));
  EXPECT_EQ(second->bytes_left, 0x4000u);
}

TEST(RemoteSpace, nothing_is_reached_across_or_beyond_regions_or_in_one_that_is_only_named) {
  RemoteSpace space;
  EXPECT_FALSE(space.find({0}, 8).has_value());
  ASSERT_TRUE(space.add(entry(0, 0x1000, 1)));
  ASSERT_TRUE(space.add(entry(0x1000, 0, 2)));
  ASSERT_TRUE(space.add(entry(0x2000, 0x1000, 3)));
  EXPECT_FALSE(space.find({0xff8}, 16).has_value());
  EXPECT_FALSE(space.find({0x1000}, 1).has_value());
  EXPECT_TRUE(space.find({0x2fff}, 1).has_value());
  EXPECT_FALSE(space.find({0x3000}, 1).has_value());
  EXPECT_FALSE(space.find({0x2000}, UINT64_MAX).has_value());
  EXPECT_FALSE(space.find({UINT64_MAX}, 8).has_value());
}

TEST(RemoteSpace, a_region_that_contradicts_the_others_is_refused) {
  RemoteSpace space;
  ASSERT_TRUE(space.add(entry(0x1000, 0x1000, 1)));
  EXPECT_FALSE(space.add(entry(0, 0x1000, 2)));
  EXPECT_FALSE(space.add(entry(0x1fff, 0x1000, 2)));
  EXPECT_FALSE(space.add(entry(0x2000, UINT64_MAX, 2)));
  EXPECT_FALSE(space.add(entry(UINT64_MAX, 8, 2)));
  EXPECT_EQ(space.regions(), 1u);
}

}  // namespace
}  // namespace refract::kv
