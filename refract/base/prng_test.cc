// SPDX-License-Identifier: Apache-2.0
#include "refract/base/prng.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace refract {
namespace {

TEST(Prng, replays_from_its_seed) {
  Prng one(42);
  Prng same(42);
  Prng other(43);
  int differences = 0;
  for (int step = 0; step < 1'000; ++step) {
    const uint64_t value = one.next();
    ASSERT_EQ(value, same.next());
    if (value != other.next()) ++differences;
  }
  EXPECT_GT(differences, 990);
}

// Seeds that people wrote down must mean the same run for ever.
TEST(Prng, gives_the_sequence_it_always_gave) {
  Prng prng(1);
  const std::array<uint64_t, 3> first = {prng.next(), prng.next(), prng.next()};
  EXPECT_EQ(first, (std::array<uint64_t, 3>{0x40bc05834d211f4au, 0x53a0d5e80dc45f64u, 0x66450976474ffb8bu}));
  EXPECT_EQ(mix(0), 0xe220a8397b1dcdafu);
}

TEST(Prng, below_reaches_every_value_evenly_and_never_the_bound) {
  Prng prng(7);
  std::array<int, 10> counts = {};
  for (int step = 0; step < 100'000; ++step) ++counts.at(prng.below(10));
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 600);
  EXPECT_EQ(prng.below(1), 0u);
}

TEST(Prng, chance_keeps_its_probability) {
  Prng prng(8);
  int hits = 0;
  for (int step = 0; step < 100'000; ++step) {
    if (prng.chance(0.25)) ++hits;
    ASSERT_FALSE(prng.chance(0.0));
    ASSERT_TRUE(prng.chance(1.0));
  }
  EXPECT_NEAR(hits, 25'000, 1'000);
}

TEST(SecureRandom, does_not_repeat_itself) {
  std::set<uint64_t> seen;
  for (int step = 0; step < 1'000; ++step) EXPECT_TRUE(seen.insert(secure_random_u64()).second);
}

TEST(SecureRandom, fills_every_byte) {
  std::array<std::byte, 33> ever_set = {};
  for (int round = 0; round < 64; ++round) {
    std::array<std::byte, 33> bytes = {};
    secure_random(bytes);
    for (size_t at = 0; at < bytes.size(); ++at) ever_set[at] |= bytes[at];
  }
  for (const std::byte byte : ever_set) EXPECT_EQ(byte, std::byte{0xff});
}

}  // namespace
}  // namespace refract
