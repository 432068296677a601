// SPDX-License-Identifier: Apache-2.0
#include "refract/base/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

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

}  // namespace
}  // namespace refract
