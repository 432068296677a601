// SPDX-License-Identifier: Apache-2.0
// What a store of keys keeps of a list of nodes: the names of all, and which of them it is. By these alone
// its slots follow, so that they stay what they are for the store's life. Addresses and versions may change.
//
// Both functions are for ever: what is stored depends on them. The tests pin them.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>

#include "refract/cluster/member_list.h"
#include "refract/cluster/slot.h"

namespace refract::cluster {

using SlotSet = std::bitset<kSlots>;

// The slots whose home is the member with this index. REQUIRES: it is in the list.
[[nodiscard]] SlotSet slots_of(const MemberList& list, size_t self);

// A number for the names and the one among them; never 0, which stands for a node alone. REQUIRES: likewise.
[[nodiscard]] uint64_t placement_of(const MemberList& list, size_t self);

// Whether a key is at the same node by both.
[[nodiscard]] bool have_same_names(const MemberList& one, const MemberList& other) noexcept;

}  // namespace refract::cluster
