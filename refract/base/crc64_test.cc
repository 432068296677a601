// SPDX-License-Identifier: Apache-2.0
#include "refract/base/crc64.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "refract/base/prng.h"

namespace refract {
namespace {

uint64_t crc_of(std::string_view text) {
  return crc64(std::as_bytes(std::span(text)));
}

// Bit by bit, as the definition has it.
uint64_t slow_crc(std::span<const std::byte> bytes) {
  uint64_t crc = ~uint64_t{0};
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<uint64_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xc96c5795d7870f42 : 0);
  }
  return ~crc;
}

TEST(Crc64, the_published_check_value_comes_out) {
  EXPECT_EQ(crc_of("123456789"), 0x995dc9bbdf1939fa);
  EXPECT_EQ(crc_of(""), 0u);
}

TEST(Crc64, every_length_and_alignment_agrees_with_the_definition) {
  Prng prng(1);
  std::vector<std::byte> bytes(200);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng.next());
  for (size_t from = 0; from < 16; ++from) {
    for (size_t length = 0; from + length <= 120; ++length) {
      const auto part = std::span(bytes).subspan(from, length);
      ASSERT_EQ(crc64(part), slow_crc(part)) << from << " " << length;
    }
  }
}

TEST(Crc64, every_flipped_bit_changes_it) {
  std::vector<std::byte> bytes(97, std::byte{0x5a});
  const uint64_t whole = crc64(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_NE(crc64(bytes), whole) << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
}

}  // namespace
}  // namespace refract
