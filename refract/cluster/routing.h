// SPDX-License-Identifier: Apache-2.0
// Which nodes an id or key belongs to. A key has a slot (slot.h); a slot has an order of the nodes, by
// rendezvous hash of slot and name. Every process with the same names computes the same.
//
// The function is for ever: what is stored depends on it. The tests pin it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "refract/cluster/member_list.h"
#include "refract/cluster/slot.h"

namespace refract::cluster {

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
  // The first one alone. REQUIRES: likewise, and the list has a node.
  [[nodiscard]] uint8_t home_of(uint16_t slot) const noexcept { return ranked_[slot * kRanked]; }

 private:
  void rank(uint16_t slot, std::span<uint8_t> nodes) const noexcept;

  std::vector<std::string> names_;
  std::vector<uint8_t> ranked_;  // kRanked for each slot.
};

}  // namespace refract::cluster
