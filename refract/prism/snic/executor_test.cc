// SPDX-License-Identifier: Apache-2.0
// Each operation with each of its flags, as docs/formats/prism.md describes them.
#include "refract/prism/snic/executor.h"

#include <gtest/gtest.h>

#include <string>

#include "refract/fabric/conformance/allocation_count.h"
#include "refract/memory/slot_word.h"
#include "refract/prism/snic/run.h"
#include "refract/prism/snic/test_world.h"

namespace refract::prism::snic {
namespace {

using test::bytes_of;
using test::Draft;
using test::kKey;
using test::kRegion;
using test::text_of;
using test::World;

constexpr uint64_t kAllOnes = ~uint64_t{0};

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

TEST(Executor, read_by_slot_word_ignores_the_other_bits_and_stops_at_the_end_of_the_region) {
  World world;
  world.set(8, (uint64_t{0xab} << 56) | SlotWord::of({4096 - 16}, 0x1234).bits);
  world.set(4096 - 16, "sixteen bytes...");
  Draft draft;
  draft->read(World::at(8), kKey, 64).indirect().by_slot_word();
  draft->read(World::at(16), kKey, 64).indirect().by_slot_word();
  const Reply reply = world.run(*draft);
  EXPECT_EQ(text_of(reply.bytes(0)), "sixteen bytes...");
  EXPECT_EQ(reply.code(1), Code::kNotFound) << "an empty slot leads nowhere";
}

TEST(Executor, redirected_read_stays_in_the_scratch_and_a_later_operation_takes_it_from_there) {
  World world;
  world.set(40, uint64_t{77});
  Draft draft;
  draft->read(World::at(40), kKey, 8).redirect(16);
  draft->write_from(World::at(80), kKey, scratch(16), 8).conditional();
  draft->read(scratch(16), RemoteKey{}, 8);
  const Reply reply = world.run(*draft);
  EXPECT_TRUE(reply.all_ok());
  EXPECT_TRUE(reply.bytes(0).empty());
  EXPECT_EQ(world.word(80), 77u);
  EXPECT_EQ(reply.word(2), 77u) << "the scratch needs no key";
}

TEST(Executor, pointer_chases_through_the_scratch_reach_one_level_deeper) {
  World world;
  world.set(8, World::at(24).bits);
  world.set(24, World::at(512).bits);
  world.set(512, "deep");
  Draft draft;
  draft->read(World::at(8), kKey, 8).indirect().redirect(0);
  draft->read(scratch(0), kKey, 4).indirect().conditional();
  const Reply reply = world.run(*draft);
  EXPECT_EQ(text_of(reply.bytes(1)), "deep");
}

TEST(Executor, write_stores_at_any_byte_and_leaves_its_neighbours) {
  World world;
  for (uint64_t shift = 0; shift < 8; ++shift) {
    for (size_t bytes = 0; bytes < 24; ++bytes) {
      world.set(96, "................................................");
      const std::string data = std::string("abcdefghijklmnopqrstuvwx").substr(0, bytes);
      Draft draft;
      draft->write(World::at(100 + shift), kKey, bytes_of(data));
      ASSERT_TRUE(world.run(*draft).all_ok());
      std::string expected(48, '.');
      expected.replace(4 + shift, bytes, data);
      ASSERT_EQ(world.text(96, 48), expected);
    }
  }
}

TEST(Executor, bounded_write_beyond_its_bound_is_refused) {
  World world;
  world.set(8, World::at(512).bits);
  world.set(16, uint64_t{4});
  Draft draft;
  draft->write(World::at(8), kKey, bytes_of("four")).indirect().bounded();
  draft->write(World::at(8), kKey, bytes_of("fives")).indirect().bounded();
  draft->write(World::at(8), kKey, bytes_of("unbounded")).indirect();
  const Reply reply = world.run(*draft);
  EXPECT_EQ(reply.code(0), Code::kOk);
  EXPECT_EQ(reply.code(1), Code::kTooLarge);
  EXPECT_EQ(reply.code(2), Code::kOk);
  EXPECT_EQ(world.text(512, 9), "unbounded");
}

TEST(Executor, write_from_an_overlapping_place_moves_the_bytes) {
  World world;
  world.set(100, "0123456789");
  Draft draft;
  draft->write_from(World::at(103), kKey, World::at(100), 10);
  EXPECT_TRUE(world.run(*draft).all_ok());
  EXPECT_EQ(world.text(100, 13), "0120123456789");
}

TEST(Executor, allocation_takes_the_first_buffer_and_answers_with_its_pointer) {
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

TEST(Executor, allocation_says_no_space_too_large_or_no_such_list) {
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

TEST(Executor, allocation_as_a_slot_word_carries_the_given_bits_and_the_place) {
  World world;
  Draft draft;
  const uint64_t fingerprint = uint64_t{0x5a} << 56;
  draft->allocate(World::at(0), kKey, bytes_of("entry")).as_slot_word(fingerprint);
  EXPECT_EQ(world.run(*draft).word(0), fingerprint | 2048 / 16);
  Draft forbidden;
  forbidden->allocate(World::at(0), kKey, bytes_of("entry")).as_slot_word(1);
  EXPECT_EQ((*forbidden).finish().code(), Code::kInvalidArgument) << "place and stamp are the executor's";
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

TEST(Executor, owned_buffer_is_stored_by_a_write_from_the_scratch_too) {
  World world;
  Draft draft;
  draft->allocate(World::at(0), kKey, bytes_of("kept")).redirect(0).owned();
  draft->write_from(World::at(8), kKey, scratch(0), 8).conditional();
  draft->allocate(World::at(0), kKey, bytes_of("lost")).redirect(8).owned();
  EXPECT_TRUE(world.run(*draft).all_ok());
  EXPECT_EQ(world.free_buffers(), 7u);
  EXPECT_EQ(world.word(8), World::at(2048).bits);
}

TEST(Executor, owned_buffer_goes_back_when_only_a_part_of_its_word_was_stored) {
  World world;
  const Masks low_half = {.compare = Operand::of(0), .swap = Operand::of(0xffff'ffff)};
  Draft draft;
  draft->allocate(World::at(0), kKey, bytes_of("lost")).redirect(0).owned();
  draft->compare_swap(
      {.address = World::at(8), .key = kKey, .swap = Operand::at(scratch(0)), .masks = &low_half});
  EXPECT_TRUE(world.run(*draft).all_ok());
  EXPECT_EQ(world.free_buffers(), 8u);
}

TEST(Executor, buffer_that_its_own_chain_retires_goes_that_way_alone) {
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

TEST(Executor, retired_buffer_comes_back_when_the_chain_has_ended) {
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

TEST(Executor, retiring_what_is_no_buffer_is_denied_and_changes_nothing) {
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

TEST(Executor, retire_by_slot_word_and_of_an_unchanged_place) {
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

struct Row {
  Comparison comparison;
  uint64_t supplied;
  bool holds;
};

TEST(Executor, comparisons_ask_whether_the_supplied_value_is_equal_greater_or_less) {
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

TEST(Executor, tags_compare_by_their_first_word_then_by_the_next) {
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

TEST(Executor, short_swaps_change_their_bytes_alone) {
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

TEST(Executor, swap_that_is_not_aligned_is_refused) {
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

TEST(Executor, operands_may_stand_in_the_region_or_in_the_scratch) {
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

TEST(Executor, fetch_add_wraps_and_returns_the_old_word) {
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

TEST(Executor, each_right_is_asked_for) {
  World world;
  world.set(8, World::at(512).bits);
  Draft draft;
  draft->read(World::at(8), kKey, 8);
  draft->write(World::at(16), kKey, bytes_of("x"));
  draft->compare_swap({.address = World::at(24), .key = kKey});
  draft->fetch_add(World::at(24), kKey, 0);
  draft->allocate(World::at(0), kKey, bytes_of("x"));
  draft->compare_swap({.address = World::at(24), .key = kKey}).retire();
  draft->write(World::at(8), kKey, bytes_of("x")).indirect();
  draft->write_from(World::at(16), kKey, World::at(8), 8);
  using Rights = ChainRights;
  const uint8_t needs[] = {Rights::kRead,
                           Rights::kWrite,
                           Rights::kAtomic,
                           Rights::kAtomic,
                           Rights::kAllocate,
                           Rights::kAtomic | Rights::kAllocate,
                           Rights::kRead | Rights::kWrite,
                           Rights::kRead | Rights::kWrite};
  for (uint8_t rights = 0; rights <= Rights::kAll; ++rights) {
    world.allow(rights);
    const Reply reply = world.run(*draft);
    for (size_t i = 0; i < reply.operations(); ++i) {
      const bool may = Rights{rights}.cover(needs[i]);
      const bool went = reply.code(i) == Code::kOk || reply.code(i) == Code::kNoSpace;
      EXPECT_EQ(went, may) << "operation " << i << " with rights " << int{rights};
      EXPECT_TRUE(may || reply.code(i) == Code::kAccessDenied);
    }
  }
}

TEST(Executor, no_pointer_in_memory_leads_to_the_scratch_or_to_another_region) {
  World world;
  ASSERT_TRUE(world.executor()
                  .add_region({.id = 9, .writer = &world.writer(), .start = {64}, .bytes = 4096})
                  .has_value());
  ASSERT_TRUE(world.connection().add({.key = {99}, .region = 9, .rights = {ChainRights::kAll}}).has_value());
  world.set(8, scratch(8).bits);
  world.set(16, RemotePointer::at(9, 512).bits);
  world.set(24, World::at(4096).bits);
  Draft draft;
  draft->read(World::at(8), kKey, 8).indirect();
  draft->read(World::at(16), kKey, 8).indirect();
  draft->read(World::at(24), kKey, 8).indirect();
  draft->read(World::at(8), RemoteKey{99}, 8);
  draft->read(RemotePointer::at(9, 512), kKey, 8);
  draft->write_from(World::at(32), kKey, RemotePointer::at(9, 512), 8);
  draft->read(RemotePointer::at(9, 512), RemoteKey{99}, 8);
  const Reply reply = world.run(*draft);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(reply.code(i), Code::kAccessDenied) << i;
  EXPECT_EQ(reply.code(6), Code::kOk);
}

TEST(Executor, output_that_does_not_fit_stops_its_operation_and_not_the_next) {
  World world;
  world.set(8, uint64_t{1});
  Draft draft;
  draft->read(World::at(0), kKey, 100);
  draft->fetch_add(World::at(8), kKey, 1);
  draft->fetch_add(World::at(8), kKey, 1);
  const Reply reply = world.run(*draft, 3 * sizeof(Outcome) + 12);
  EXPECT_EQ(reply.code(0), Code::kTooLarge);
  EXPECT_EQ(reply.code(1), Code::kOk);
  EXPECT_EQ(reply.code(2), Code::kTooLarge);
  EXPECT_EQ(world.word(8), 2u) << "an addition whose answer has no room is not made";
}

class RefusingGuard final : public Guard {
 public:
  [[nodiscard]] bool may_write(Offset at, uint64_t bytes) noexcept override {
    return at.value >= World::kStart + 512 && bytes < 100;
  }
  [[nodiscard]] bool may_swap(const Swap& swap) noexcept override {
    last = swap.after[0];
    installed_bytes += swap.installs.bytes;
    return swap.before[0] == 0;
  }
  uint64_t last = 0;
  uint64_t installed_bytes = 0;
};

TEST(Executor, guard_has_the_last_word) {
  RefusingGuard guard;
  World world({.guard = &guard});
  world.set(8, uint64_t{1});
  Draft draft;
  draft->write(World::at(64), kKey, bytes_of("x"));
  draft->write(World::at(512), kKey, bytes_of("x"));
  draft->compare_swap({.address = World::at(8), .key = kKey, .compare = Operand::of(1)});
  draft->allocate(World::at(0), kKey, bytes_of("x")).redirect(0).owned();
  draft->compare_swap({.address = World::at(16), .key = kKey, .swap = Operand::at(scratch(0))});
  draft->fetch_add(World::at(8), kKey, 1);
  const Reply reply = world.run(*draft);
  EXPECT_EQ(reply.code(0), Code::kAccessDenied);
  EXPECT_EQ(reply.code(1), Code::kOk);
  EXPECT_EQ(reply.code(2), Code::kAccessDenied);
  EXPECT_EQ(reply.code(4), Code::kOk);
  EXPECT_EQ(reply.code(5), Code::kAccessDenied);
  EXPECT_EQ(world.word(8), 1u);
  EXPECT_EQ(guard.last, 2u) << "an addition is shown as the swap that it is";
  EXPECT_EQ(guard.installed_bytes, 64u) << "it is told which buffer of the chain comes in";
}

TEST(Executor, malformed_chain_executes_nothing) {
  World world;
  Draft draft;
  draft->write(World::at(8), kKey, bytes_of("first"));
  draft->read(World::at(8), kKey, 5);
  const auto message = (*draft).finish();
  std::vector<std::byte> bytes(message->begin(), message->end());
  bytes.push_back(std::byte{0});
  const std::string before = world.image();
  EXPECT_EQ(world.executor().execute(world.connection(), bytes, world.room()).code(), Code::kMalformed);
  EXPECT_EQ(world.executor().execute(world.connection(), *message, world.room().first(15)).code(),
            Code::kTooLarge);
  EXPECT_EQ(world.image(), before);
  EXPECT_EQ(world.executor().counts().malformed_chains, 1u);
}

TEST(Executor, nothing_is_allocated_after_the_first_chain_of_its_kind) {
  World world;
  Draft draft;
  draft->allocate(World::at(0), kKey, bytes_of("value")).redirect(0).owned();
  draft
      ->compare_swap({.address = World::at(8),
                      .key = kKey,
                      .comparison = Comparison::kGreater,
                      .compare = Operand::of(kAllOnes),
                      .swap = Operand::at(scratch(0))})
      .conditional()
      .retire();
  draft->read(World::at(8), kKey, 5).indirect();
  draft->write_from(World::at(64), kKey, World::at(2048), 32);
  ASSERT_TRUE(world.run(*draft).all_ok());
  ASSERT_TRUE(world.run(*draft).all_ok());
  const uint64_t before = allocation_count();
  for (int i = 0; i < 100; ++i) (void)world.run(*draft);
  EXPECT_EQ(allocation_count(), before);
}

TEST(Executor, abandoned_run_gives_back_what_it_owned) {
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

TEST(Executor, grown_region_is_reachable_and_removed_region_is_not) {
  World world({.bytes = 4096});
  Draft draft;
  draft->read(World::at(2048), kKey, 8);
  EXPECT_EQ(world.executor().grow(kRegion, 1024).code(), Code::kInvalidArgument);
  EXPECT_EQ(world.executor().grow(8, 8192).code(), Code::kNotFound);
  EXPECT_EQ(world.executor().add_region({.id = kRegion, .writer = &world.writer()}).code(), Code::kExists);
  EXPECT_TRUE(world.run(*draft).all_ok());
  world.executor().remove_region(kRegion);
  EXPECT_EQ(world.run(*draft).code(0), Code::kAccessDenied);
  ASSERT_TRUE(world.executor()
                  .add_region({.id = kRegion, .writer = &world.writer(), .start = {64}, .bytes = 1024})
                  .has_value());
  EXPECT_EQ(world.run(*draft).code(0), Code::kAccessDenied);
  ASSERT_TRUE(world.executor().grow(kRegion, 4096).has_value());
  EXPECT_TRUE(world.run(*draft).all_ok());
}

}  // namespace
}  // namespace refract::prism::snic
