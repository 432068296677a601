// SPDX-License-Identifier: Apache-2.0
// Which nodes an id or key belongs to. A key has one of 16,384 slots, by the rule of Redis Cluster; a slot
// has an order of the nodes, by rendezvous hash of slot and name. Every process with the same names computes
// the same.
//
// Both functions are for ever: what is stored depends on them. The tests pin them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "refract/cluster/member_list.h"

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

// The order of a list's nodes for each slot. Making it hashes each name with each slot, some milliseconds for
// a hundred nodes; a look-up of the first few nodes is a load.
//
// Threads: any, once it is made. nodes_of() does not allocate.
class Routing {
 public:
  // How many of a slot's nodes are in the table. Further ones are computed at each call.
  static constexpr size_t kRanked = 4;

  explicit Routing(const MemberList& list);

  // The slot's first nodes, as indices into the list's members: as many as there is room for, or as there
  // are. Returns how many. The first one is the slot's home. REQUIRES: slot < kSlots.
  size_t nodes_of(uint16_t slot, std::span<uint8_t> nodes) const noexcept;

 private:
  void rank(uint16_t slot, std::span<uint8_t> nodes) const noexcept;

  std::vector<std::string> names_;
  std::vector<uint8_t> ranked_;  // kRanked for each slot.
};

}  // namespace refract::cluster
