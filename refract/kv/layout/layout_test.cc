// SPDX-License-Identifier: Apache-2.0
// The layout's arithmetic, and its golden bytes: the example of docs/formats/kv-table.md, read from that
// page.
#include "refract/kv/layout/layout.h"

#include <gtest/gtest.h>

#include <vector>

#include "refract/base/prng.h"
#include "refract/base/testing/golden.h"
#include "refract/base/testing/needed.h"
#include "refract/kv/owner/numbered/numbered_turn.h"
#include "refract/kv/testing/test_space.h"

namespace refract::kv {
namespace {

using test::bytes_of;
using test::Space;

TEST(Layout, the_page_shows_the_bytes) {
  Space space({.chunks = 8, .chunks_max = 8, .hash_seed = 42, .copies = 1});
  ASSERT_TRUE(space.table().put(bytes_of("user:7"), bytes_of("Ada"), {}));
  ASSERT_TRUE(
      space.table().put(bytes_of("lease"), bytes_of("held"), {.expires_wall_ns = 1'800'000'000'000'000'000}));
  ASSERT_TRUE(space.table().put(bytes_of("once"), bytes_of("done"),
                                {.request = {.client = 0x1122334455667788, .sequence = 5}}));
  const TableKey first = space.table().hashed(bytes_of("a"));
  const TableKey second = space.table().hashed(bytes_of("user:7"));
  std::vector<BatchWrite> writes{{.key = first, .kind = WriteKind::kAdd, .addend = 42},
                                 {.key = second, .kind = WriteKind::kPut, .value = bytes_of("Bo")}};
  TableBatch batch{.conditions = {}, .writes = writes};
  ASSERT_TRUE(space.table().change_at_once(batch));
  const SecretDigest secret{0x0807060504030201, 0x100f0e0d0c0b0a09};
  NumberedSession* const session = refract::test::needed(space.table().sessions().begin(1, secret));
  const NumberedOperation erase{
      .number = 1, .kind = NumberedOperation::Kind::kErase, .key = space.table().hashed(bytes_of("once"))};
  ASSERT_EQ(Table::NumberedTurn(space.table()).execute(session, erase).code, Code::kOk);
  const auto lines = golden::lines_of(REFRACT_SOURCE_DIR "/docs/formats/kv-table.md");
  EXPECT_GT(lines.size(), 10U);
  const std::vector<std::byte> image = golden::image_of(lines, space.bytes());
  for (size_t i = 0; i < image.size(); ++i) ASSERT_EQ(image[i], space.base()[i]) << std::hex << i;
}

TEST(Layout, a_slot_keeps_its_parts) {
  Prng prng(1);
  for (int round = 0; round < 10'000; ++round) {
    const Slot::Parts parts{.hash = prng.next(),
                            .stamp = prng.next() | 1,
                            .bytes = prng.next() >> prng.below(64) >> 30,
                            .expires = prng.chance(0.5),
                            .buffer = {prng.below(uint64_t{1} << 39) / kGranuleBytes * kGranuleBytes}};
    const Slot slot = Slot::of(parts);
    EXPECT_EQ(slot.fingerprint(), parts.hash >> 56);
    EXPECT_EQ(slot.buffer(), parts.buffer);
    EXPECT_EQ(slot.expires(), parts.expires);
    EXPECT_TRUE(slot.names(parts.stamp));
    EXPECT_FALSE(slot.names(parts.stamp + 1));
    EXPECT_FALSE(slot.names(0));
    if (slot.size_hint() < 15) {
      EXPECT_LE(parts.bytes, uint64_t{64} << slot.size_hint());
    }
  }
}

TEST(Layout, a_split_moves_entries_from_its_source_to_the_new_bucket_and_nowhere_else) {
  Prng prng(2);
  for (uint64_t count = 1; count < 300; ++count) {
    for (int round = 0; round < 200; ++round) {
      const uint64_t hash = prng.next();
      const uint64_t before = bucket_index(hash, count);
      const uint64_t after = bucket_index(hash, count + 1);
      ASSERT_LT(before, count);
      if (before != after) {
        ASSERT_EQ(after, count);
        ASSERT_EQ(before, split_source(count + 1));
      }
    }
  }
}

TEST(Layout, came_forward_says_whether_a_split_of_the_time_between_brought_the_bucket_forward) {
  constexpr uint64_t kCounts = 140;
  for (uint64_t from = 2; from < kCounts; ++from) {
    for (uint64_t to = from; to < kCounts; ++to) {
      std::vector<bool> forwarded(kCounts);
      for (uint64_t count = from + 1; count <= to; ++count) forwarded[forwarded_bucket(count)] = true;
      for (uint64_t bucket = 0; bucket < kCounts; ++bucket) {
        ASSERT_EQ(came_forward(bucket, from, to), forwarded[bucket]) << bucket << " " << from << " " << to;
      }
    }
  }
  EXPECT_FALSE(came_forward(0, 5, 4));
  EXPECT_FALSE(came_forward(0, 0, 4));
}

// Never the bucket that is split itself, whose entries leave it meanwhile.
TEST(Layout, the_bucket_that_comes_forward_is_not_the_one_that_is_split) {
  for (uint64_t count = 4; count < 5'000; ++count) {
    ASSERT_EQ(forwarded_bucket(count), split_source(count - 1));
    ASSERT_NE(forwarded_bucket(count), split_source(count)) << count;
    ASSERT_LT(forwarded_bucket(count), count - 1) << count;
  }
}

TEST(Layout, large_values_start_on_a_cache_line) {
  const Lengths small{.value_bytes = 64, .key_bytes = 3};
  EXPECT_EQ(small.value_at(), 19U);
  const Lengths large{.value_bytes = 4096, .key_bytes = 3, .flags = Lengths::kExpires};
  EXPECT_EQ(large.value_at(), 64U);
  EXPECT_EQ(large.total_bytes(), 64U + 4096);
  const Lengths all{.value_bytes = 1, .key_bytes = 3, .flags = Lengths::kExpires | Lengths::kIdentified};
  EXPECT_EQ(all.identity_at(), 24U);
  EXPECT_EQ(all.key_at(), 40U);
  EXPECT_EQ(all.value_at(), 43U);
  EXPECT_TRUE(all.is_sound());
  EXPECT_FALSE((Lengths{.value_bytes = 1, .key_bytes = 3, .flags = 4}).is_sound());
}

}  // namespace
}  // namespace refract::kv
