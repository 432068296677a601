// SPDX-License-Identifier: Apache-2.0
#include "refract/client/shard_cursor.h"

#include <gtest/gtest.h>

namespace refract::client {
namespace {

TEST(ShardCursor, a_scan_goes_through_the_shards_and_ends) {
  constexpr uint64_t kOwn = 0x001234'56789abcde;
  uint64_t cursor = 0;
  for (uint32_t shard = 0; shard < 256; ++shard) {
    EXPECT_EQ(ShardCursor::from(cursor).shard, shard);
    EXPECT_EQ(ShardCursor::from(cursor).own, 0U);
    cursor = ShardCursor::from(cursor).followed_by(kOwn, 256);
    EXPECT_EQ(ShardCursor::from(cursor).shard, shard);
    EXPECT_EQ(ShardCursor::from(cursor).own, kOwn);
    cursor = ShardCursor::from(cursor).followed_by(0, 256);
  }
  EXPECT_EQ(cursor, 0U);
}

TEST(ShardCursor, one_shard_changes_nothing) {
  EXPECT_EQ(ShardCursor::from(0).followed_by(77, 1), 77U);
  EXPECT_EQ(ShardCursor::from(77).own, 77U);
  EXPECT_EQ(ShardCursor::from(77).followed_by(0, 1), 0U);
}

}  // namespace
}  // namespace refract::client
