// SPDX-License-Identifier: Apache-2.0
// Buffers that chains take, own, store and retire: each goes exactly one way.
#include <gtest/gtest.h>

#include <string>

#include "refract/prism/snic/executor.h"
#include "refract/prism/snic/run.h"
#include "refract/prism/snic/test_world.h"

namespace refract::prism::snic {
namespace {

using test::bytes_of;
using test::Draft;
using test::kKey;
using test::text_of;
using test::World;

constexpr uint64_t kAllOnes = ~uint64_t{0};

TEST(ExecutorAllocation, allocation_takes_the_first_buffer_and_answers_with_its_pointer) {
  World world;
  Draft draft;
  draft->allocate(World::at(0), kKey, bytes_of("one"));
  draft->allocate(World::at(0), kKey, bytes_of("two"));
  const Reply reply = world.run(*draft);
  EXPECT_EQ(reply.pointer(0), World::at(2048));
  EXPECT_EQ(reply.pointer(1), World::at(2048 + 64));
  EXPECT_EQ(world.text(2048, 3), "one");
  EXPECT_EQ(world.text(2048 + 64, 3), "two");
  EXPECT_EQ(world.free_buffers(), 6u);
}

TEST(ExecutorAllocation, allocation_says_no_space_too_large_or_no_such_list) {
  World world({.buffers = 1});
  Draft draft;
  draft->allocate(World::at(0), kKey, bytes_of(std::string(65, 'x')));
  draft->allocate(World::at(1), kKey, bytes_of("x"));
  draft->allocate(World::at(0), kKey, bytes_of("x"));
  draft->allocate(World::at(0), kKey, bytes_of("x"));
  draft->write(World::at(0), kKey, bytes_of("x")).conditional();
  const Reply reply = world.run(*draft);
  EXPECT_EQ(reply.code(0), Code::kTooLarge);
  EXPECT_EQ(reply.code(1), Code::kInvalidArgument);
  EXPECT_EQ(reply.code(2), Code::kOk);
  EXPECT_EQ(reply.code(3), Code::kNoSpace);
  EXPECT_EQ(reply.code(4), Code::kCancelled);
}

TEST(ExecutorAllocation, allocation_as_a_slot_word_carries_the_given_bits_and_the_place) {
  World world;
  Draft draft;
  const uint64_t fingerprint = uint64_t{0x5a} << 56;
  draft->allocate(World::at(0), kKey, bytes_of("entry")).as_slot_word(fingerprint);
  EXPECT_EQ(world.run(*draft).word(0), fingerprint | 2048 / 16);
  Draft forbidden;
  forbidden->allocate(World::at(0), kKey, bytes_of("entry")).as_slot_word(1);
  EXPECT_EQ((*forbidden).finish().code(), Code::kInvalidArgument) << "place and stamp are the executor's";
}

TEST(ExecutorAllocation, put_of_the_paper_takes_one_chain) {
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

TEST(ExecutorAllocation, owned_buffer_is_stored_by_a_write_from_the_scratch_too) {
  World world;
  Draft draft;
  draft->allocate(World::at(0), kKey, bytes_of("kept")).redirect(0).owned();
  draft->write_from(World::at(8), kKey, scratch(0), 8).conditional();
  draft->allocate(World::at(0), kKey, bytes_of("lost")).redirect(8).owned();
  EXPECT_TRUE(world.run(*draft).all_ok());
  EXPECT_EQ(world.free_buffers(), 7u);
  EXPECT_EQ(world.word(8), World::at(2048).bits);
}

TEST(ExecutorAllocation, owned_buffer_goes_back_when_only_a_part_of_its_word_was_stored) {
  World world;
  const Masks low_half = {.compare = Operand::of(0), .swap = Operand::of(0xffff'ffff)};
  Draft draft;
  draft->allocate(World::at(0), kKey, bytes_of("lost")).redirect(0).owned();
  draft->compare_swap(
      {.address = World::at(8), .key = kKey, .swap = Operand::at(scratch(0)), .masks = &low_half});
  EXPECT_TRUE(world.run(*draft).all_ok());
  EXPECT_EQ(world.free_buffers(), 8u);
}

TEST(ExecutorAllocation, buffer_that_its_own_chain_retires_goes_that_way_alone) {
  World world;
  Draft draft;
  draft->allocate(World::at(0), kKey, bytes_of("x")).redirect(0).owned();
  // In two halves, so that no single operation has stored it.
  draft->write_from(World::at(8), kKey, RemotePointer::at(kScratchRegion, 0), 4);
  draft->write_from(World::at(12), kKey, RemotePointer::at(kScratchRegion, 4), 4);
  draft
      ->compare_swap({.address = World::at(8),
                      .key = kKey,
                      .comparison = Comparison::kGreater,
                      .compare = Operand::of(kAllOnes)})
      .retire();
  EXPECT_TRUE(world.run(*draft).all_ok());
  EXPECT_EQ(world.free_buffers(), 8u);
  EXPECT_EQ(world.executor().counts().buffers_retired, 1u);
  EXPECT_EQ(world.executor().counts().buffers_given_back, 0u) << "readers may have been led there";
}

TEST(ExecutorAllocation, retired_buffer_comes_back_when_the_chain_has_ended) {
  World world({.buffers = 1});
  Draft put;
  put->allocate(World::at(0), kKey, bytes_of("first")).redirect(0).owned();
  put->compare_swap({.address = World::at(8), .key = kKey, .swap = Operand::at(scratch(0))}).conditional();
  ASSERT_TRUE(world.run(*put).all_ok());
  ASSERT_EQ(world.free_buffers(), 0u);
  Draft erase;
  erase->compare_swap({.address = World::at(8), .key = kKey, .compare = Operand::of(world.word(8))}).retire();
  erase->allocate(World::at(0), kKey, bytes_of("second"));
  erase->read(World::at(2048), kKey, 5);
  const Reply reply = world.run(*erase);
  EXPECT_EQ(reply.code(0), Code::kOk);
  EXPECT_EQ(reply.code(1), Code::kNoSpace) << "the chain that retires may still read";
  EXPECT_EQ(text_of(reply.bytes(2)), "first");
  EXPECT_EQ(world.free_buffers(), 1u);
  EXPECT_EQ(world.word(8), 0u);
}

TEST(ExecutorAllocation, retiring_what_is_no_buffer_is_denied_and_changes_nothing) {
  World world;
  world.set(8, World::at(2048 + 8).bits);  // Inside a buffer.
  world.set(16, World::at(2048).bits);     // Free.
  world.set(24, RemotePointer::at(9, 2048).bits);
  const std::string before = world.image();
  Draft draft;
  for (uint64_t at = 8; at <= 24; at += 8) {
    draft->compare_swap({.address = World::at(at), .key = kKey, .compare = Operand::of(world.word(at))})
        .retire();
  }
  const Reply reply = world.run(*draft);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(reply.code(i), Code::kAccessDenied);
  EXPECT_EQ(world.image(), before);
}

TEST(ExecutorAllocation, retire_by_slot_word_and_of_an_unchanged_place) {
  World world;
  Draft draft;
  draft->allocate(World::at(0), kKey, bytes_of("entry")).as_slot_word(uint64_t{1} << 56);
  const uint64_t word = world.run(*draft).word(0);
  world.set(8, word);
  Draft touch;
  touch
      ->compare_swap({.address = World::at(8),
                      .key = kKey,
                      .compare = Operand::of(word),
                      .swap = Operand::of(word | uint64_t{1} << 60)})
      .retire()
      .by_slot_word();
  EXPECT_TRUE(world.run(*touch).all_ok());
  EXPECT_EQ(world.free_buffers(), 7u) << "it still leads there";
  Draft erase;
  erase->compare_swap({.address = World::at(8), .key = kKey, .compare = Operand::of(world.word(8))})
      .retire()
      .by_slot_word();
  EXPECT_TRUE(world.run(*erase).all_ok());
  EXPECT_EQ(world.free_buffers(), 8u);
}

TEST(ExecutorAllocation, abandoned_run_gives_back_what_it_owned) {
  World world;
  Draft draft;
  draft->allocate(World::at(0), kKey, bytes_of("x")).redirect(0).owned();
  draft->compare_swap({.address = World::at(8), .key = kKey, .swap = Operand::at(scratch(0))});
  {
    snic::Run run(world.executor(), world.connection());
    ASSERT_TRUE(run.begin(*(*draft).finish(), world.room()).has_value());
    ASSERT_TRUE(run.step());
    EXPECT_EQ(world.free_buffers(), 7u);
    EXPECT_EQ(world.executor().open_runs(), 1u);
  }
  EXPECT_EQ(world.free_buffers(), 8u);
  EXPECT_EQ(world.executor().open_runs(), 0u);
  EXPECT_EQ(world.word(8), 0u);
}

}  // namespace
}  // namespace refract::prism::snic
