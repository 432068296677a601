// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/verbs/remote_regions.h"

#include <gtest/gtest.h>

#include <array>

namespace refract::fabric::verbs {
namespace {

void learn(RemoteRegions& regions, uint16_t region, uint64_t key, std::span<const uint32_t> device_keys) {
  std::array<std::byte, kWireBytesMax> buffer;
  const RemoteRegion what{.key = {key},
                          .bytes = 4096 * device_keys.size() - 8,
                          .chunk_bytes = 4096,
                          .rights = {.read = true},
                          .chunk_count = static_cast<uint32_t>(device_keys.size())};
  const auto answer = decode_answer(encode_answer(region, what, device_keys, buffer));
  ASSERT_TRUE(answer.has_value());
  regions.learn(*answer);
}

TEST(RemoteRegions, only_the_key_that_was_answered_finds_a_region_until_it_is_forgotten) {
  RemoteRegions regions;
  learn(regions, 7, 0x77, std::array<uint32_t, 1>{1});
  learn(regions, 9, 0x99, std::array<uint32_t, 1>{2});
  ASSERT_NE(regions.find(7, {0x77}), nullptr);
  EXPECT_EQ(regions.find(7, {0x99}), nullptr);
  EXPECT_EQ(regions.find(8, {0x77}), nullptr);
  EXPECT_EQ(regions.find(65'535, {0x77}), nullptr);
  regions.forget(7);
  EXPECT_EQ(regions.find(7, {0x77}), nullptr);
  ASSERT_NE(regions.find(9, {0x99}), nullptr) << "its neighbour is still there";
  EXPECT_EQ(regions.find(9, {0x99})->device_key(0), 2u);
  learn(regions, 9, 0x98, std::array<uint32_t, 1>{3});
  EXPECT_EQ(regions.find(9, {0x99}), nullptr) << "a successor has another key";
  EXPECT_EQ(regions.find(9, {0x98})->device_key(8), 3u);
  regions.clear();
  EXPECT_EQ(regions.find(9, {0x98}), nullptr);
}

TEST(RemoteRegions, bounds_rights_and_chunks_are_checked_before_anything_is_sent) {
  RemoteRegions regions;
  learn(regions, 3, 1, std::array<uint32_t, 2>{10, 11});
  const RemoteRegions::Row* const row = regions.find(3, {1});
  ASSERT_NE(row, nullptr);
  EXPECT_TRUE(row->covers(0, 8184, &Rights::read));
  EXPECT_TRUE(row->covers(8184, 0, &Rights::read));
  EXPECT_FALSE(row->covers(0, 8185, &Rights::read));
  EXPECT_FALSE(row->covers(8185, 0, &Rights::read));
  EXPECT_FALSE(row->covers(8, ~uint64_t{0}, &Rights::read)) << "the sum overflows";
  EXPECT_FALSE(row->covers(0, 8, &Rights::write));
  EXPECT_EQ(row->device_key(4095), 10u);
  EXPECT_EQ(row->device_key(4096), 11u);
  EXPECT_EQ(row->bytes_behind(4000), 96u);
}

}  // namespace
}  // namespace refract::fabric::verbs
