// SPDX-License-Identifier: Apache-2.0
#include "refract/base/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "refract/base/testing/keys_of_hash.h"

namespace refract {
namespace {

uint64_t hash_text(std::string_view text, uint64_t seed) {
  return hash_key(std::as_bytes(std::span(text.data(), text.size())), seed);
}

// The results are those of XXH3's reference (`xxhsum -H3`); stored tables are laid out by them.
TEST(HashKey, is_xxh3_for_ever) {
  EXPECT_EQ(hash_text("", 0), 0x2d06800538d394c2u);
  EXPECT_EQ(hash_text("refract", 0), 0xcd014b2d54525f57u);
  EXPECT_EQ(hash_text("refract", 1), 0xb351ee599c77df51u);
  EXPECT_EQ(hash_text(std::string(1'000, 'x'), 0), 0xc0a4877b962cba82u);
}

TEST(HashKey, sees_every_byte_and_the_length) {
  for (const size_t bytes : {1u, 8u, 16u, 17u, 128u, 240u, 241u, 4'000u}) {
    const std::string key(bytes, 'k');
    std::set<uint64_t> hashes = {hash_text(key, 0), hash_text(key + 'k', 0), hash_text(key, 1)};
    for (size_t at = 0; at < bytes; ++at) {
      std::string changed = key;
      changed[at] = 'K';
      hashes.insert(hash_text(changed, 0));
    }
    EXPECT_EQ(hashes.size(), bytes + 3) << bytes;
  }
}

// What every client can do that knows the seed; tests and benchmarks rely on it.
TEST(HashKey, has_a_key_of_eight_bytes_for_every_hash) {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{0x9e3779b97f4a7c15}}) {
    const test::KeysOfHash keys(seed);
    for (const uint64_t hash : {uint64_t{0}, uint64_t{1}, uint64_t{0xfedcba9876543210}, ~uint64_t{0}}) {
      EXPECT_EQ(hash_text(keys(hash), seed), hash);
    }
    EXPECT_EQ(hash_text(keys.of_bucket(77, 0x123, 20), seed), 0x4d00123U);
  }
}

}  // namespace
}  // namespace refract
