// SPDX-License-Identifier: Apache-2.0
#include "refract/cluster/slot.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace refract::cluster {
namespace {

constexpr std::array<uint16_t, 256> kCrcOfByte = [] {
  std::array<uint16_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t crc = byte << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1;
    table[byte] = static_cast<uint16_t>(crc);
  }
  return table;
}();

std::span<const std::byte> hashed_part_of(std::span<const std::byte> key) noexcept {
  const auto open = std::ranges::find(key, std::byte{'{'});
  if (open == key.end()) return key;
  const auto begin = std::next(open);
  const auto close = std::find(begin, key.end(), std::byte{'}'});
  return close == key.end() || close == begin ? key : std::span(begin, close);
}

}  // namespace

uint16_t crc16(std::span<const std::byte> bytes) noexcept {
  uint32_t crc = 0;
  for (const std::byte byte : bytes) {
    crc = (crc << 8 ^ kCrcOfByte[(crc >> 8 ^ static_cast<uint32_t>(byte)) & 0xff]) & 0xffff;
  }
  return static_cast<uint16_t>(crc);
}

uint16_t slot_of(std::span<const std::byte> key) noexcept {
  return crc16(hashed_part_of(key)) % kSlots;
}

}  // namespace refract::cluster
