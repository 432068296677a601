// SPDX-License-Identifier: Apache-2.0
// The call by which a client learns where one-sided requests reach a table's space. docs/formats/kv-rpc.md
// has its bodies beside the others'.
//
// It has a range of methods of its own, between the table's and those of the node, so that a server that
// offers no memory needs nothing of it: it answers kUnsupported, as to any method it does not know.
#pragma once

#include <cstddef>
#include <cstdint>

namespace refract::kv::wire {

inline constexpr uint16_t kRemoteMethodsBegin = 0x80;
// Numbers travel and never change.
inline constexpr uint16_t kRegionsMethod = 0x80;

// Which regions of the space there are, from the given one on. Answered only over channels whose READs do
// without the owner's CPU; over others kUnsupported.
struct RegionsRequest {
  uint64_t first;
};
static_assert(sizeof(RegionsRequest) == 8);

struct RegionsReply {  // | RegionEntry, as many as fit a message.
  uint64_t wall_ns;    // Of the owner: remote readers compare expiry times with it.
  uint32_t regions;    // All there are: a client told of fewer asks again.
  uint32_t reserved;
};
static_assert(sizeof(RegionsReply) == 16 && offsetof(RegionsReply, regions) == 8);

struct RegionEntry {
  uint64_t start;    // In the space.
  uint64_t bytes;    // 0: the region is there, but cannot be reached.
  uint64_t address;  // RemotePointer::bits, of its first byte.
  uint64_t key;      // RemoteKey::bits
};
static_assert(sizeof(RegionEntry) == 32);

// A bound for the reader of such an answer: a space has a region at birth and one for each growth.
inline constexpr uint32_t kRegionsMax = 4096;

}  // namespace refract::kv::wire
