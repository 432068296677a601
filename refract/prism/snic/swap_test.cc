// SPDX-License-Identifier: Apache-2.0
// Compare-and-swap with each comparison, length, mask and source of operands, and fetch-and-add.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

#include "refract/prism/snic/executor.h"
#include "refract/prism/snic/test_world.h"

namespace refract::prism::snic::swap_test {
namespace {

using test::bytes_of;
using test::Draft;
using test::kKey;
using test::World;

constexpr uint64_t kAllOnes = ~uint64_t{0};

TEST(ExecutorSwap, failed_comparison_cancels_what_is_conditional_and_nothing_else) {
  World world;
  world.set(0, uint64_t{5});
  Draft draft;
  draft->allocate(World::at(0), kKey, bytes_of("orphan")).redirect(0).owned();
  draft->compare_swap({.address = World::at(0), .key = kKey, .compare = Operand::of(4)}).conditional();
  draft->write(World::at(16), kKey, bytes_of("no")).conditional();
  draft->write(World::at(24), kKey, bytes_of("no")).conditional();
  draft->write(World::at(32), kKey, bytes_of("yes"));
  const Reply reply = world.run(*draft);
  EXPECT_EQ(reply.code(1), Code::kCompareFailed);
  EXPECT_EQ(reply.word(1), 5u);
  EXPECT_EQ(reply.code(2), Code::kCancelled);
  EXPECT_EQ(reply.code(3), Code::kCancelled) << "a cancelled operation has not succeeded";
  EXPECT_EQ(reply.code(4), Code::kOk);
  EXPECT_EQ(world.text(32, 3), "yes");
  EXPECT_EQ(world.word(16), 0u);
  EXPECT_EQ(world.free_buffers(), 8u) << "what was allocated and not stored is given back";
  EXPECT_EQ(world.executor().counts().buffers_given_back, 1u);
}

struct Row {
  Comparison comparison;
  uint64_t supplied;
  bool holds;
};

TEST(ExecutorSwap, comparisons_ask_whether_the_supplied_value_is_equal_greater_or_less) {
  for (const Row& row : {Row{Comparison::kEqual, 5, true}, Row{Comparison::kEqual, 6, false},
                         Row{Comparison::kGreater, 6, true}, Row{Comparison::kGreater, 5, false},
                         Row{Comparison::kGreater, 4, false}, Row{Comparison::kLess, 4, true},
                         Row{Comparison::kLess, 5, false}, Row{Comparison::kLess, 6, false}}) {
    World world;
    world.set(8, uint64_t{5});
    Draft draft;
    draft->compare_swap({.address = World::at(8),
                         .key = kKey,
                         .comparison = row.comparison,
                         .compare = Operand::of(row.supplied),
                         .swap = Operand::of(9)});
    const Reply reply = world.run(*draft);
    EXPECT_EQ(reply.code(0), row.holds ? Code::kOk : Code::kCompareFailed);
    EXPECT_EQ(reply.word(0), 5u);
    EXPECT_EQ(world.word(8), row.holds ? 9u : 5u);
  }
}

TEST(ExecutorSwap, tags_compare_by_their_first_word_then_by_the_next) {
  World world;
  const uint64_t stored[] = {7, kAllOnes, 0x2000};
  world.set(8, std::string_view(reinterpret_cast<const char*>(stored), sizeof(stored)));
  const Masks tag_alone = {
      .compare = Operand::of(std::as_bytes(std::span<const uint64_t>({kAllOnes, kAllOnes}))),
      .swap = Operand::of(std::as_bytes(std::span<const uint64_t>({kAllOnes, kAllOnes, kAllOnes})))};
  const auto swap_to = [&](uint64_t counter, uint64_t client) {
    const uint64_t next[] = {counter, client, 0x1000};
    Draft draft;
    draft->compare_swap({.address = World::at(8),
                         .key = kKey,
                         .bytes = 24,
                         .comparison = Comparison::kGreater,
                         .compare = Operand::of(std::as_bytes(std::span(next))),
                         .swap = Operand::of(std::as_bytes(std::span(next))),
                         .masks = &tag_alone});
    return world.run(*draft).code(0);
  };
  EXPECT_EQ(swap_to(6, kAllOnes), Code::kCompareFailed);
  EXPECT_EQ(swap_to(7, kAllOnes), Code::kCompareFailed) << "the pointer is not compared";
  EXPECT_EQ(swap_to(8, 0), Code::kOk);
  EXPECT_EQ(world.word(24), 0x1000u);
  EXPECT_EQ(swap_to(8, 1), Code::kOk);
}

TEST(ExecutorSwap, short_swaps_change_their_bytes_alone) {
  for (uint32_t bytes = 1; bytes < 8; ++bytes) {
    for (uint64_t shift = 0; shift + bytes <= 8; ++shift) {
      World world;
      world.set(16, kAllOnes);
      Draft draft;
      draft->compare_swap({.address = World::at(16 + shift),
                           .key = kKey,
                           .bytes = bytes,
                           .compare = Operand::of(kAllOnes),
                           .swap = Operand::of(0)});
      const Reply reply = world.run(*draft);
      ASSERT_EQ(reply.code(0), Code::kOk);
      ASSERT_EQ(reply.bytes(0).size(), bytes);
      std::string expected(8, '\xff');
      expected.replace(shift, bytes, bytes, '\0');
      ASSERT_EQ(world.text(16, 8), expected);
    }
  }
}

TEST(ExecutorSwap, swap_that_is_not_aligned_is_refused) {
  World world;
  Draft draft;
  for (const auto& [offset, bytes] : {std::pair{12, 8}, {4, 16}, {7, 2}, {5, 4}}) {
    draft->compare_swap({.address = World::at(static_cast<uint64_t>(offset)),
                         .key = kKey,
                         .bytes = static_cast<uint32_t>(bytes)});
  }
  draft->fetch_add(World::at(4), kKey, 1);
  draft->read(World::at(4), kKey, 1).indirect();
  const std::string before = world.image();
  const Reply reply = world.run(*draft);
  for (size_t i = 0; i < reply.operations(); ++i) EXPECT_EQ(reply.code(i), Code::kInvalidArgument) << i;
  EXPECT_EQ(world.image(), before);
}

TEST(ExecutorSwap, operands_may_stand_in_the_region_or_in_the_scratch) {
  World world;
  world.set(8, uint64_t{5});
  world.set(99, std::string_view("\5\0\0\0\0\0\0\0", 8));
  world.set(200, uint64_t{6});
  Draft draft;
  draft->read(World::at(200), kKey, 8).redirect(24);
  draft->compare_swap({.address = World::at(8),
                       .key = kKey,
                       .compare = Operand::at(World::at(99)),
                       .swap = Operand::at(scratch(24))});
  EXPECT_TRUE(world.run(*draft).all_ok());
  EXPECT_EQ(world.word(8), 6u);
}

TEST(ExecutorSwap, fetch_add_wraps_and_returns_the_old_word) {
  World world;
  world.set(8, World::at(16).bits);
  world.set(16, kAllOnes);
  Draft draft;
  draft->fetch_add(World::at(8), kKey, 3).indirect();
  draft->fetch_add(World::at(16), kKey, 5);
  const Reply reply = world.run(*draft);
  EXPECT_EQ(reply.word(0), kAllOnes);
  EXPECT_EQ(reply.word(1), 2u);
  EXPECT_EQ(world.word(16), 7u);
}

}  // namespace
}  // namespace refract::prism::snic::swap_test
