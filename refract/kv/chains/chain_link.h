// SPDX-License-Identifier: Apache-2.0
// What all operations of one client of chains share: the key to the owner's region, how the table lies in it,
// and what was seen of it so far.
//
// Threads: one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "refract/kv/chains/chain_slots.h"
#include "refract/kv/layout/table_geometry.h"
#include "refract/memory/remote_pointer.h"
#include "refract/prism/operation.h"

namespace refract::kv {

// Why an operation went to the owner by a call instead.
enum class ByRpc : uint8_t {
  kNotAttached,  // The owner offers no region, or no right to write.
  kConditional,  // A put with a condition, a time to live or an identity.
  kAbsent,       // A put of a key that is not there.
  kExpires,      // The entry has, or may have, a time to live.
  kLarge,        // Beyond what a chain or its reply carries.
  kNoSpace,      // Nothing was free: only the owner can have the node grow.
  kContended,    // Others were quicker too often.
  kRefused,      // The owner's answer made no sense here, or it was too busy.
  kCrowded,      // The bucket has more lines than are worth a round trip each.
};
inline constexpr size_t kByRpcReasons = 9;

struct ChainCounts {
  uint64_t chains = 0;       // Sent.
  uint64_t gets = 0;         // Answered by chains, kNotFound included.
  uint64_t puts = 0;         // Executed by chains.
  uint64_t known_slots = 0;  // Among both, those that found their slot where it was seen last.
  uint64_t conflicts = 0;    // Swaps that met another word than expected.
  std::array<uint64_t, kByRpcReasons> by_rpc{};

  [[nodiscard]] uint64_t all_by_rpc() const noexcept {
    uint64_t sum = 0;
    for (const uint64_t count : by_rpc) sum += count;
    return sum;
  }
};

struct ChainLink {
  explicit ChainLink(size_t slots_known) : slots(slots_known) {}

  [[nodiscard]] RemotePointer at(Offset offset) const noexcept {
    return RemotePointer::at(region, offset.value);
  }
  // Of outputs that `operations` operations may bring together.
  [[nodiscard]] uint64_t room_for(size_t operations) const noexcept {
    const uint64_t outcomes = operations * sizeof(prism::Outcome);
    return reply_bytes_max > outcomes ? (reply_bytes_max - outcomes) / 8 * 8 : 0;
  }

  RemoteKey key;
  uint16_t region = 0;
  prism::ChainRights rights;
  uint64_t reply_bytes_max = 0;
  TableGeometry geometry;
  ChainSlots slots;
  ChainCounts counts;
  std::vector<std::byte> entry;  // Where a put's buffer is put together; its memory is used again.
};

}  // namespace refract::kv
