// SPDX-License-Identifier: Apache-2.0
#include "refract/object/transfer/piece_queue.h"

#include <gtest/gtest.h>

#include <string>

#include "refract/base/prng.h"

namespace refract::object {
namespace {

TEST(PieceQueue, all_bytes_are_taken_once_and_what_is_given_back_again) {
  PieceQueue queue(10);
  EXPECT_FALSE(queue.is_empty());
  const PieceQueue::Piece first = queue.take(4);
  EXPECT_EQ(first.offset, 0U);
  EXPECT_EQ(first.bytes, 4U);
  const PieceQueue::Piece rest = queue.take(100);
  EXPECT_EQ(rest.offset, 4U);
  EXPECT_EQ(rest.bytes, 6U);
  EXPECT_TRUE(queue.is_empty());
  EXPECT_EQ(queue.take(1).bytes, 0U);
  queue.give_back(first);
  EXPECT_FALSE(queue.is_empty());
  const PieceQueue::Piece again = queue.take(3);
  EXPECT_EQ(again.offset, 0U);
  EXPECT_EQ(again.bytes, 3U);
  EXPECT_EQ(queue.take(3).bytes, 1U);
  queue.brought({.offset = 4, .bytes = 6});
  EXPECT_EQ(queue.whole(), 0U);
  queue.brought({.offset = 0, .bytes = 4});
  EXPECT_EQ(queue.whole(), 10U);
  EXPECT_TRUE(queue.is_done());
  queue.reject(rest);
  EXPECT_FALSE(queue.is_done());
  EXPECT_FALSE(queue.is_empty());
}

TEST(PieceQueue, an_object_of_no_bytes_is_there_at_once) {
  PieceQueue queue(0);
  EXPECT_TRUE(queue.is_empty());
  EXPECT_TRUE(queue.is_done());
  EXPECT_EQ(queue.take(1).bytes, 0U);
}

// Whatever is taken, given back and rejected in between: each byte is brought once in the end.
TEST(PieceQueue, each_byte_is_brought_once_whatever_comes_back) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Prng prng(seed);
    const uint64_t bytes = 1 + prng.below(500);
    PieceQueue queue(bytes);
    std::string seen(bytes, '\0');
    std::vector<PieceQueue::Piece> taken;
    while (!queue.is_done()) {
      if (const PieceQueue::Piece piece = queue.take(1 + prng.below(20)); piece.bytes > 0)
        taken.push_back(piece);
      ASSERT_FALSE(taken.empty());
      const size_t at = prng.below(taken.size());
      const PieceQueue::Piece piece = taken[at];
      taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(at));
      if (prng.chance(0.3)) {
        queue.give_back(piece);
        continue;
      }
      queue.brought(piece);
      if (prng.chance(0.1)) {
        queue.reject(piece);
        continue;
      }
      for (uint64_t i = 0; i < piece.bytes; ++i) ++seen[piece.offset + i];
    }
    EXPECT_EQ(seen, std::string(bytes, '\1')) << seed;
  }
}

}  // namespace
}  // namespace refract::object
