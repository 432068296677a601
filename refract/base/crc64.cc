// SPDX-License-Identifier: Apache-2.0
#include "refract/base/crc64.h"

#include <array>
#include <bit>
#include <cstring>

namespace refract {

namespace {

constexpr uint64_t kPolynomial = 0xc96c5795d7870f42;
constexpr size_t kLanes = 16;  // Bytes of a step; their look-ups do not wait for each other.

using Tables = std::array<std::array<uint64_t, 256>, kLanes>;

// tables[n][b]: what byte b contributes when n more bytes follow it in its step.
constexpr Tables make_tables() noexcept {
  Tables tables{};
  for (size_t byte = 0; byte < 256; ++byte) {
    uint64_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t lane = 1; lane < kLanes; ++lane) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint64_t crc = tables[lane - 1][byte];
      tables[lane][byte] = (crc >> 8) ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();
static_assert(std::endian::native == std::endian::little, "words are taken apart low byte first");

// What the eight bytes of a word contribute when `behind` bytes of the step follow them.
[[nodiscard]] inline uint64_t contribution(uint64_t word, size_t behind) noexcept {
  uint64_t sum = 0;
  for (size_t byte = 0; byte < 8; ++byte) {
    sum ^= kTables[behind + 7 - byte][(word >> (8 * byte)) & 0xff];
  }
  return sum;
}

}  // namespace

uint64_t crc64(std::span<const std::byte> bytes) noexcept {
  uint64_t crc = ~uint64_t{0};
  const std::byte* next = bytes.data();
  size_t left = bytes.size();
  for (; left >= kLanes; left -= kLanes, next += kLanes) {
    uint64_t words[2];
    std::memcpy(words, next, sizeof(words));
    crc = contribution(words[0] ^ crc, 8) ^ contribution(words[1], 0);
  }
  for (; left > 0; --left, ++next) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ std::to_integer<uint64_t>(*next)) & 0xff];
  }
  return ~crc;
}

}  // namespace refract
