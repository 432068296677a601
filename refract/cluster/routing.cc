// SPDX-License-Identifier: Apache-2.0
#include "refract/cluster/routing.h"

#include <algorithm>
#include <array>

#include "refract/base/hash.h"

namespace refract::cluster {

Routing::Routing(const MemberList& list) : ranked_(kSlots * kRanked) {
  names_.reserve(list.members.size());
  for (const Member& member : list.members) names_.push_back(member.name);
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    rank(static_cast<uint16_t>(slot), std::span(ranked_).subspan(slot * kRanked, kRanked));
  }
}

size_t Routing::nodes_of(uint16_t slot, std::span<uint8_t> nodes) const noexcept {
  nodes = nodes.first(std::min(nodes.size(), names_.size()));
  if (nodes.size() <= kRanked) {
    std::ranges::copy(std::span(ranked_).subspan(slot * kRanked, nodes.size()), nodes.begin());
  } else {
    rank(slot, nodes);
  }
  return nodes.size();
}

// The highest weight first; of equal ones the lower name, so that the order of a list means nothing.
void Routing::rank(uint16_t slot, std::span<uint8_t> nodes) const noexcept {
  struct Weighed {
    uint64_t weight;
    uint8_t node;
  };
  std::array<Weighed, kMembersMax> all;
  const auto weighed = std::span(all).first(names_.size());
  for (size_t node = 0; node < names_.size(); ++node) {
    weighed[node] = {.weight = hash_key(std::as_bytes(std::span(names_[node])), slot),
                     .node = static_cast<uint8_t>(node)};
  }
  const auto is_before = [](const Weighed& one, const Weighed& other) {
    return one.weight != other.weight ? one.weight > other.weight : one.node < other.node;
  };
  const size_t count = std::min(nodes.size(), names_.size());
  std::ranges::partial_sort(weighed, weighed.begin() + static_cast<ptrdiff_t>(count), is_before);
  for (size_t i = 0; i < count; ++i) nodes[i] = weighed[i].node;
}

}  // namespace refract::cluster
