// SPDX-License-Identifier: Apache-2.0
// Reads and writes with each of their flags, as docs/formats/prism.md describes them, and what is refused.
// Allocations and swaps: allocation_test.cc, swap_test.cc.
#include "refract/prism/snic/executor.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/fabric/conformance/allocation_count.h"
#include "refract/memory/slot_word.h"
#include "refract/prism/snic/test_world.h"

namespace refract::prism::snic::executor_test {
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
  [[nodiscard]] Code may_swap(const Swap& swap) noexcept override {
    last = swap.after[0];
    installed_bytes += swap.installs.bytes;
    return swap.before[0] == 0 ? Code::kOk : refusal;
  }
  Code refusal = Code::kAccessDenied;
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
  guard.refusal = Code::kReadOnly;
  EXPECT_EQ(world.run(*draft).code(2), Code::kReadOnly) << "it says why, too";
}

TEST(Executor, malformed_chain_executes_nothing) {
  World world;
  Draft draft;
  draft->write(World::at(8), kKey, bytes_of("first"));
  draft->read(World::at(8), kKey, 5);
  const auto message = refract::test::needed((*draft).finish());
  std::vector<std::byte> bytes(message.begin(), message.end());
  bytes.push_back(std::byte{0});
  const std::string before = world.image();
  EXPECT_EQ(world.executor().execute(world.connection(), bytes, world.room()).code(), Code::kMalformed);
  EXPECT_EQ(world.executor().execute(world.connection(), message, world.room().first(15)).code(),
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
}  // namespace refract::prism::snic::executor_test
