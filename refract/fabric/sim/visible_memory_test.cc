// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/sim/visible_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace refract::sim::visible_memory_test {
namespace {

constexpr uint64_t kBytes = 4096;

uint64_t word_of(const std::byte* image, uint64_t offset) {
  uint64_t word = 0;
  std::memcpy(&word, image + offset, sizeof(word));
  return word;
}

std::vector<std::byte> bytes_of(const std::byte* image) {
  return {image, image + kBytes};
}

// Method: word i is only ever stored with growing numbers, so that an image shows how far each word is.
TEST(VisibleMemory, others_see_a_prefix_of_the_stores_and_never_go_back) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Prng prng(seed);
    VisibleMemory memory({.bytes = kBytes, .seed = seed});
    Writer writer(memory.owner(), &memory);
    std::vector<std::vector<std::byte>> history = {bytes_of(memory.owner())};
    uint64_t seen = 0;
    for (uint64_t store = 1; store <= 500; ++store) {
      writer.publish(Offset{prng.below(kBytes / 8) * 8}, store);
      history.push_back(bytes_of(memory.owner()));
      memory.advance_random(prng);
      ASSERT_GE(memory.visible(), seen);
      ASSERT_LE(memory.visible(), memory.position());
      seen = memory.visible();
      ASSERT_EQ(bytes_of(memory.image()), history[seen]) << "seed " << seed << " store " << store;
    }
  }
}

TEST(VisibleMemory, stores_lag_and_arrive) {
  uint64_t lagged = 0;
  uint64_t caught_up = 0;
  Prng prng(7);
  VisibleMemory memory({.bytes = kBytes});
  Writer writer(memory.owner(), &memory);
  for (uint64_t store = 1; store <= 2'000; ++store) {
    writer.publish(Offset{8}, store);
    memory.advance_random(prng);
    (memory.visible() < memory.position() ? lagged : caught_up) += 1;
  }
  EXPECT_GT(lagged, 200u);
  EXPECT_GT(caught_up, 200u);
}

TEST(VisibleMemory, a_large_copy_is_seen_in_parts_and_then_whole) {
  std::vector<std::byte> value(1'000);
  for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<std::byte>(mix(i));
  bool partly_backward = false;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    VisibleMemory memory({.bytes = kBytes, .seed = seed});
    Writer writer(memory.owner(), &memory);
    writer.copy(Offset{13}, value);  // Not at a word's border.
    memory.make_visible(memory.position() / 2);
    EXPECT_NE(std::memcmp(memory.image() + 13, value.data(), value.size()), 0);
    const uint64_t first = word_of(memory.image(), 16);
    partly_backward = partly_backward || first == 0;
    memory.make_visible(memory.position());
    EXPECT_EQ(std::memcmp(memory.image() + 13, value.data(), value.size()), 0);
    EXPECT_EQ(bytes_of(memory.image()), bytes_of(memory.owner()));
  }
  EXPECT_TRUE(partly_backward) << "no copy routine promises an order";
}

TEST(VisibleMemory, a_fence_makes_all_stores_visible) {
  VisibleMemory memory({.bytes = kBytes});
  Writer writer(memory.owner(), &memory);
  writer.publish(Offset{64}, 5);
  EXPECT_EQ(word_of(memory.image(), 64), 0u);
  writer.fence();
  EXPECT_EQ(word_of(memory.image(), 64), 5u);
}

TEST(VisibleMemory, stores_are_never_held_back_for_ever) {
  VisibleMemory memory({.bytes = kBytes, .lag_words_max = 100});
  Writer writer(memory.owner(), &memory);
  for (uint64_t store = 1; store <= 10'000; ++store) {
    writer.publish(Offset{8}, store);
    ASSERT_LE(memory.position() - memory.visible(), 100u);
    ASSERT_GE(word_of(memory.image(), 8) + 100, store);
  }
}

TEST(VisibleMemory, a_crash_leaves_a_prefix_that_holds_all_that_was_noticed) {
  std::vector<uint64_t> ends;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Prng prng(seed);
    VisibleMemory memory({.bytes = kBytes});
    Writer writer(memory.owner(), &memory);
    for (uint64_t store = 1; store <= 20; ++store) writer.publish(Offset{store * 8}, store);
    memory.make_visible(10);
    const std::vector<std::byte> left = memory.crash_image(prng);
    uint64_t end = 0;
    while (end < 20 && word_of(left.data(), (end + 1) * 8) == end + 1) ++end;
    for (uint64_t store = end + 1; store <= 20; ++store) EXPECT_EQ(word_of(left.data(), store * 8), 0u);
    EXPECT_GE(end, 10u);
    ends.push_back(end);
    EXPECT_EQ(memory.position(), 20u) << "asking changes nothing";

    memory.crash(end);
    EXPECT_EQ(bytes_of(memory.owner()), left);
    EXPECT_EQ(bytes_of(memory.image()), left);
    EXPECT_EQ(memory.position(), memory.visible());
    // The next process stores on.
    writer.publish(Offset{8}, 99);
    memory.make_visible(memory.position());
    EXPECT_EQ(word_of(memory.image(), 8), 99u);
  }
  EXPECT_EQ(std::ranges::min(ends), 10u);
  EXPECT_EQ(std::ranges::max(ends), 20u);
}

TEST(VisibleMemory, nothing_after_the_moment_of_a_crash_becomes_visible) {
  VisibleMemory memory({.bytes = kBytes});
  Writer writer(memory.owner(), &memory);
  writer.publish(Offset{8}, 1);
  memory.freeze(memory.position());
  writer.publish(Offset{8}, 2);
  writer.fence();
  memory.make_visible(memory.position());
  EXPECT_EQ(word_of(memory.image(), 8), 1u);
  memory.crash(1);
  EXPECT_EQ(word_of(memory.owner(), 8), 1u);
  writer.publish(Offset{8}, 3);
  writer.fence();
  EXPECT_EQ(word_of(memory.image(), 8), 3u);
}

TEST(VisibleMemory, what_grows_is_seen_with_its_new_bytes) {
  VisibleMemory memory({.bytes = 64, .bytes_max = kBytes});
  Writer writer(memory.owner(), &memory);
  memory.extend(128);
  writer.publish(Offset{120}, 5);
  memory.make_visible(memory.position());
  EXPECT_EQ(word_of(memory.image(), 120), 5u);
}

TEST(VisibleMemory, an_image_that_a_crash_left_is_where_the_next_begins) {
  std::vector<std::byte> left(kBytes, std::byte{0x5a});
  const VisibleMemory memory({.bytes = kBytes}, left);
  EXPECT_EQ(bytes_of(memory.owner()), left);
  EXPECT_EQ(bytes_of(memory.image()), left);
}

// The owner rewrites a value under a sequence word, odd meanwhile. A reader that looks at the word before and
// after is right; one that does not is torn, and the model must show it.
TEST(SeededReader, tears_a_copy_whose_reader_does_not_look_at_the_stamp_again) {
  constexpr uint64_t kWords = 16;
  uint64_t torn_unchecked = 0;
  uint64_t accepted = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    VisibleMemory memory({.bytes = kBytes, .seed = seed});
    Writer writer(memory.owner(), &memory);
    SeededReader reader(memory, {.seed = seed});
    const ReaderMemory view = reader.memory();
    for (uint64_t version = 1; version < 20; ++version) {
      writer.publish(Offset{0}, version * 2 - 1);
      const std::vector<uint64_t> value(kWords, version);
      writer.copy(Offset{64}, std::as_bytes(std::span(value)));
      writer.publish(Offset{0}, version * 2);

      std::vector<uint64_t> copy(kWords);
      const uint64_t before = view.observe(Offset{0});
      view.copy(copy.data(), Offset{64}, kWords * 8);
      const uint64_t after = view.observe(Offset{0});
      const bool torn = std::ranges::any_of(copy, [&](uint64_t word) { return word != copy[0]; });
      torn_unchecked += torn ? 1 : 0;
      if (before != after || before % 2 != 0) continue;
      ++accepted;
      ASSERT_FALSE(torn) << "seed " << seed;
      ASSERT_EQ(copy[0], before / 2) << "seed " << seed;
    }
  }
  EXPECT_GT(torn_unchecked, 100u);
  EXPECT_GT(accepted, 100u);
}

TEST(SeededReader, copies_any_range_as_it_is) {
  VisibleMemory memory({.bytes = kBytes});
  for (size_t i = 0; i < kBytes; ++i) memory.owner()[i] = static_cast<std::byte>(mix(i));
  const VisibleMemory copy({.bytes = kBytes}, {memory.owner(), kBytes});
  VisibleMemory shown({.bytes = kBytes}, {memory.owner(), kBytes});
  SeededReader reader(shown, {.seed = 3});
  Prng prng(5);
  for (int i = 0; i < 2'000; ++i) {
    const uint64_t at = prng.below(kBytes);
    const uint64_t bytes = prng.below(std::min<uint64_t>(600, kBytes - at) + 1);
    std::vector<std::byte> target(bytes + 1, std::byte{0xcc});
    reader.memory().copy(target.data(), Offset{at}, bytes);
    ASSERT_EQ(std::memcmp(target.data(), copy.owner() + at, bytes), 0);
    ASSERT_EQ(target[bytes], std::byte{0xcc});
    std::span<std::byte> same(target.data(), bytes);
    ASSERT_TRUE(reader.memory().equals(Offset{at}, same));
    if (bytes == 0) continue;
    same[prng.below(bytes)] ^= std::byte{1};
    ASSERT_FALSE(reader.memory().equals(Offset{at}, same));
  }
}

TEST(SeededReader, a_stall_lets_others_work_between_two_loads) {
  VisibleMemory memory({.bytes = kBytes});
  Writer writer(memory.owner(), &memory);
  uint64_t stores = 0;
  SeededReader reader(memory, {.seed = 1, .stall_chance = 0.5, .stall = [&] {
                                 for (int i = 0; i < 100; ++i) writer.publish(Offset{8}, ++stores);
                                 writer.fence();
                               }});
  uint64_t jumps = 0;
  uint64_t last = 0;
  for (int i = 0; i < 100; ++i) {
    const uint64_t seen = reader.memory().observe(Offset{8});
    ASSERT_GE(seen, last);
    jumps += seen >= last + 100 ? 1 : 0;
    last = seen;
  }
  EXPECT_GT(jumps, 20u);
}

}  // namespace
}  // namespace refract::sim::visible_memory_test
