// SPDX-License-Identifier: Apache-2.0
// The body of the call by which a client learns what a node has learned of its ways to other nodes;
// docs/formats/objects.md has a worked example: the golden test.
//
// Little endian, no padding, reserved fields are 0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace refract::object::wire {

// Methods of services beside the owner of objects.
inline constexpr uint16_t kPathMethodsBegin = 0x420;

enum class PathMethod : uint16_t { kPaths = 0x420 };

inline constexpr size_t kPathSizes = 20;

// kPaths: PathsRequest -> PathsReply, then each a PathEntry and a name: as many as there is room for, the
// first of which is number `first`, in the order of the list. kUnsupported: the node shares its objects with
// no other.
struct PathsRequest {
  uint32_t first;
  uint32_t reserved;
};
struct PathsReply {
  uint32_t count;
  uint32_t next;  // 0: that is all.
};
struct PathEntry {
  uint64_t round_trip_ns;  // 0: not known; likewise all below.
  uint64_t bytes_per_s;
  uint64_t
      switch_bytes;  // From here on READs are quicker than messages. All ones: at no size that was tried.
  // For objects of 1 KiB, 2 KiB and so on: what they take by messages, and by READs.
  uint64_t message_ns[kPathSizes];
  uint64_t read_ns[kPathSizes];
  uint16_t name_bytes;
  uint8_t reserved[6];
};
static_assert(sizeof(PathsRequest) == 8 && sizeof(PathsReply) == 8);
static_assert(sizeof(PathEntry) == 352 && offsetof(PathEntry, name_bytes) == 344);

}  // namespace refract::object::wire
