// SPDX-License-Identifier: Apache-2.0
#include "refract/cluster/routing.h"

#include <algorithm>
#include <array>

#include "refract/base/hash.h"

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
