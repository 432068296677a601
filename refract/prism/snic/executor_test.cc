// SPDX-License-Identifier: Apache-2.0
#include "refract/prism/snic/executor.h"

#include <gtest/gtest.h>

#include <string>

#include "refract/memory/slot_word.h"
#include "refract/prism/snic/test_world.h"

namespace refract::prism::snic {
namespace {

using test::bytes_of;
using test::Draft;
using test::kKey;
using test::text_of;
using test::World;

TEST(Executor, read_returns_the_bytes_of_the_region) {
  World world;
  world.set(104, "out of place");
  Draft draft;
  draft->read(World::at(107), kKey, 9);
  const Reply reply = world.run(*draft);
  EXPECT_EQ(reply.code(0), Code::kOk);
  EXPECT_EQ(text_of(reply.bytes(0)), " of place");
}

TEST(Executor, indirect_read_follows_the_pointer_and_bounded_read_says_its_length) {
  World world;
  world.set(8, World::at(512).bits);
  world.set(16, uint64_t{5});
  world.set(512, "hello, world");
  Draft draft;
  draft->read(World::at(8), kKey, 12).indirect();
  draft->read(World::at(8), kKey, 12).indirect().bounded();
  draft->read(World::at(8), kKey, 3).indirect().bounded();
  const Reply reply = world.run(*draft);
  EXPECT_EQ(text_of(reply.bytes(0)), "hello, world");
  EXPECT_EQ(text_of(reply.bytes(1)), "hello");
  EXPECT_EQ(text_of(reply.bytes(2)), "hel");
  world.set(16, uint64_t{0});
  const Reply empty = world.run(*draft);
  EXPECT_EQ(empty.code(1), Code::kOk);
  EXPECT_TRUE(empty.bytes(1).empty());
}

TEST(Executor, put_of_the_paper_takes_one_chain) {
  World world;
  const uint64_t old_pointer = World::at(1024).bits;
  world.set(0, old_pointer);
  Draft draft;
  draft->allocate(World::at(0), kKey, bytes_of("new value")).redirect(8).owned();
  draft
      ->compare_swap({.address = World::at(0),
                      .key = kKey,
                      .compare = Operand::of(old_pointer),
                      .swap = Operand::at(scratch(8))})
      .conditional();
  draft->read(World::at(0), kKey, 9).indirect().conditional();
  const Reply reply = world.run(*draft);
  EXPECT_TRUE(reply.all_ok());
  EXPECT_EQ(reply.word(1), old_pointer);
  EXPECT_EQ(text_of(reply.bytes(2)), "new value");
  EXPECT_EQ(world.word(0), world.scratch_word(8));
  EXPECT_EQ(world.free_buffers(), 7u);
}

TEST(Executor, failed_comparison_cancels_what_is_conditional_and_nothing_else) {
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

}  // namespace
}  // namespace refract::prism::snic
