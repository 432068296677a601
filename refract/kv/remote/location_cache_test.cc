// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/remote/location_cache.h"

#include <gtest/gtest.h>

#include <vector>

#include "refract/base/prng.h"
#include "refract/fabric/conformance/allocation_count.h"

namespace refract::kv {
namespace {

Location location(uint64_t hash, uint64_t stamp = 1) {
  return {.hash = hash, .slot_at = {64 + hash % 4096 * 8}, .word = hash | 1, .stamp = stamp, .bytes = 100};
}

TEST(LocationCache, gives_back_what_was_learnt_last) {
  LocationCache cache(1 << 14);
  EXPECT_FALSE(cache.find(7).has_value());
  cache.learn(location(7, 1));
  cache.learn(location(7, 2));
  const auto found = cache.find(7);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->stamp, 2u);
  EXPECT_EQ(found->slot_at, location(7).slot_at);
  EXPECT_EQ(cache.counts().hits, 1u);
  EXPECT_EQ(cache.counts().misses, 1u);
  EXPECT_EQ(cache.counts().evicted, 0u);
}

TEST(LocationCache, what_is_stale_is_forgotten_and_counted) {
  LocationCache cache(1 << 14);
  cache.learn(location(7));
  cache.forget_stale(7);
  EXPECT_FALSE(cache.find(7).has_value());
  EXPECT_EQ(cache.counts().stale, 1u);
}

TEST(LocationCache, takes_no_more_memory_than_it_was_given) {
  for (const size_t bytes : {0U, 100U, 1'000U, 10'000U, 1'000'000U}) {
    LocationCache cache(bytes);
    EXPECT_LE(cache.bytes(), bytes);
    EXPECT_GE(cache.capacity() * 42 + 400, bytes);
    const uint64_t before = allocation_count();
    Prng prng(bytes + 1);
    for (int i = 0; i < 30'000; ++i) cache.learn(location(prng.next()));
    EXPECT_EQ(allocation_count(), before);
    EXPECT_EQ(cache.counts().evicted > 0, cache.capacity() > 0);
  }
}

TEST(LocationCache, keeps_what_is_found_again_and_again_while_others_pass) {
  LocationCache cache(64 << 10);
  Prng prng(3);
  std::vector<uint64_t> wanted(cache.capacity() / 8);
  for (uint64_t& hash : wanted) {
    hash = prng.next();
    cache.learn(location(hash));
  }
  uint64_t kept = 0;
  for (int round = 0; round < 20; ++round) {
    kept = 0;
    for (const uint64_t hash : wanted) kept += cache.find(hash).has_value() ? 1 : 0;
    // Others pass, each once: five times as many as fit, in all.
    for (size_t i = 0; i < cache.capacity() / 4; ++i) cache.learn(location(prng.next()));
  }
  EXPECT_GT(kept * 10, wanted.size() * 8);
}

TEST(LocationCache, never_tells_of_one_hash_what_is_anothers) {
  LocationCache cache(4 << 10);
  Prng prng(5);
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t hash = prng.below(300) * 0x9e37'79b9;
    const auto found = cache.find(hash);
    EXPECT_TRUE(!found || found->hash == hash);
    if (prng.chance(0.5)) cache.learn(location(hash));
    if (prng.chance(0.1)) cache.forget_stale(hash);
  }
  cache.clear();
  for (uint64_t number = 0; number < 300; ++number) {
    EXPECT_FALSE(cache.find(number * 0x9e37'79b9).has_value());
  }
}

}  // namespace
}  // namespace refract::kv
