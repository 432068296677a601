// SPDX-License-Identifier: Apache-2.0
#include "refract/base/secret_hash.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace refract {
namespace {

// Key 00 01 .. 0f, input 00 01 .. of each length: the authors' vectors of SipHash-2-4, whose code is ours.
TEST(SecretHash, gives_what_its_authors_say) {
  const SipHash<2, 4> hash({.low = 0x0706050403020100, .high = 0x0f0e0d0c0b0a0908});
  std::vector<std::byte> input;
  for (int i = 0; i < 16; ++i) input.push_back(static_cast<std::byte>(i));
  const std::span<const std::byte> all = input;
  EXPECT_EQ(hash(all.first(0)), 0x726fdb47dd0e0e31U);
  EXPECT_EQ(hash(all.first(1)), 0x74f839c593dc67fdU);
  EXPECT_EQ(hash(all.first(7)), 0xab0200f58b01d137U);
  EXPECT_EQ(hash(all.first(8)), 0x93f5f5799a932462U);
  EXPECT_EQ(hash(all.first(15)), 0xa129ca6149be45e5U);
}

TEST(SecretHash, of_a_word_is_that_of_its_bytes) {
  const SecretHash hash(SecretKey::draw());
  const uint64_t word = 0x0123456789abcdef;
  EXPECT_EQ(hash(word), hash(std::as_bytes(std::span(&word, 1))));
}

TEST(SecretHash, differs_with_the_key) {
  const uint64_t word = 42;
  EXPECT_NE(SecretHash(SecretKey::draw())(word), SecretHash(SecretKey::draw())(word));
  EXPECT_NE(SecretHash({.low = 1, .high = 2})(word), SecretHash({.low = 1, .high = 3})(word));
}

}  // namespace
}  // namespace refract
