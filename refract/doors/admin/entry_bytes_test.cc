// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/admin/entry_bytes.h"

#include <gtest/gtest.h>

namespace refract::doors::redis {
namespace {

// Claim: an entry takes its buffer as large as the node's classes have it, and a slot of 8 bytes. Where small
// ones lie: docs/formats/kv-table.md.
TEST(EntryBytes, are_those_of_buffer_and_slot) {
  // 16 of stamp and lengths, 3 of the key, 5 of the value.
  EXPECT_EQ(entry_bytes(3, {.version = 1, .value_bytes = 5}), 32U + 8U);
  // A time takes 8 more, and then the next class of 16.
  EXPECT_EQ(entry_bytes(3, {.version = 1, .value_bytes = 5, .expires_wall_ns = 1}), 32U + 8U);
  EXPECT_EQ(entry_bytes(3, {.version = 1, .value_bytes = 6, .expires_wall_ns = 1}), 48U + 8U);
  // Large ones take whole pages.
  const uint64_t large = entry_bytes(3, {.version = 1, .value_bytes = 1'000'000});
  EXPECT_EQ(large % 4096, 8U);
  EXPECT_GT(large, 1'000'000U);
  EXPECT_LT(large, 1'000'000U + 2 * 4096);
}

}  // namespace
}  // namespace refract::doors::redis
