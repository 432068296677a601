// SPDX-License-Identifier: Apache-2.0
#include "refract/cluster/placement.h"

#include <algorithm>
#include <span>
#include <string>

#include "refract/base/hash.h"
#include "refract/cluster/routing.h"

namespace refract::cluster {

SlotSet slots_of(const MemberList& list, size_t self) {
  const Routing routing(list);
  SlotSet slots;
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    slots[slot] = routing.home_of(static_cast<uint16_t>(slot)) == self;
  }
  return slots;
}

// No name has a zero byte.
uint64_t placement_of(const MemberList& list, size_t self) {
  std::string text = list.members[self].name + '\0';
  for (const Member& member : list.members) text += member.name + '\0';
  return std::max<uint64_t>(hash_key(std::as_bytes(std::span(text)), 0), 1);
}

bool have_same_names(const MemberList& one, const MemberList& other) noexcept {
  return std::ranges::equal(one.members, other.members, {}, &Member::name, &Member::name);
}

}  // namespace refract::cluster
