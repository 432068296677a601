// SPDX-License-Identifier: Apache-2.0
// How memory of a node is named: never by a virtual address, so that a name stays true across processes,
// restarts and moves.
//
// The regions of one node lie behind each other in one space; an Offset counts bytes from its start. On the
// wire a place is a RemotePointer, region and offset inside it, because a region is what a device registers.
#pragma once

#include <compare>
#include <cstdint>
#include <type_traits>

namespace refract {

// Bytes from the start of a node's space. 0 lies in the space's header, so it serves as "nowhere".
struct Offset {
  uint64_t value = 0;

  [[nodiscard]] constexpr explicit operator bool() const noexcept { return value != 0; }
  [[nodiscard]] constexpr Offset plus(uint64_t bytes) const noexcept { return {value + bytes}; }
  auto operator<=>(const Offset&) const = default;
};

// 16 bits of region, 48 bits of offset inside the region.
struct RemotePointer {
  uint64_t bits = 0;

  [[nodiscard]] static constexpr RemotePointer at(uint16_t region, uint64_t offset) noexcept {
    return {(uint64_t{region} << 48) | (offset & kOffsetMask)};
  }
  [[nodiscard]] constexpr uint16_t region() const noexcept { return static_cast<uint16_t>(bits >> 48); }
  [[nodiscard]] constexpr uint64_t offset() const noexcept { return bits & kOffsetMask; }
  auto operator<=>(const RemotePointer&) const = default;

  static constexpr uint64_t kOffsetMask = (uint64_t{1} << 48) - 1;
};

// Without the right key, or outside its bounds and rights, no request touches a region. Drawn from the
// kernel's generator; 0 is never a key.
struct RemoteKey {
  uint64_t bits = 0;
  auto operator<=>(const RemoteKey&) const = default;
};

static_assert(sizeof(Offset) == 8 && sizeof(RemotePointer) == 8 && sizeof(RemoteKey) == 8);
static_assert(std::is_trivially_copyable_v<RemotePointer>);

// What one-sided requests may do in a region. READ only is what readers get.
struct Rights {
  bool read = false;
  bool write = false;
  bool atomic = false;
};

}  // namespace refract
