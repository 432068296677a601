// SPDX-License-Identifier: Apache-2.0
// The slot of an id or key: one of 16,384, by the rule of Redis Cluster.
//
// The function is for ever: what is stored depends on it. The tests pin it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace refract::cluster {

inline constexpr uint32_t kSlots = 16'384;

// CRC-16/XMODEM: polynomial 0x1021, from 0, high bits first.
[[nodiscard]] uint16_t crc16(std::span<const std::byte> bytes) noexcept;

// Of the key; of the part in braces alone, where the first { has a } behind it and something in between. So
// a user has keys together: {user:7}:name and {user:7}:photo are in one slot.
[[nodiscard]] uint16_t slot_of(std::span<const std::byte> key) noexcept;
[[nodiscard]] inline uint16_t slot_of(std::string_view key) noexcept {
  return slot_of(std::as_bytes(std::span(key)));
}

}  // namespace refract::cluster
