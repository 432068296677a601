// SPDX-License-Identifier: Apache-2.0
// Who gets an object from whom, when one holder gives it to many (docs/design/061-broadcast.md): a tree in
// which each node has so many children, which is a chain where it has one.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace refract::object {

// What is known of the paths between the nodes.
struct BroadcastPaths {
  uint64_t round_trip_ns = 0;  // 0: not known.
  uint64_t bytes_per_s = 0;    // Likewise.
};
struct BroadcastShape {
  size_t degree = 1;  // Children of a node; as many as there are receivers: all get it from the holder.
  uint64_t piece_bytes = 0;  // That are passed on at once.
};
inline constexpr uint64_t kBroadcastPieceMin = 64 * 1024;
inline constexpr uint64_t kBroadcastPieceMax = 1024 * 1024;

// Below this many bytes the holder gives it to each.
inline constexpr uint64_t kBroadcastBytesMin = 2 * kBroadcastPieceMin;

// About how long it takes until the last of the receivers has it.
[[nodiscard]] uint64_t broadcast_time(size_t receivers, uint64_t bytes, const BroadcastPaths& paths,
                                      const BroadcastShape& shape) noexcept;
// The shape in which that is shortest.
[[nodiscard]] BroadcastShape broadcast_shape(size_t receivers, uint64_t bytes,
                                             const BroadcastPaths& paths) noexcept;
// Of the receiver with this number: those before it, the nearest first, at most `most`. They descend.
[[nodiscard]] std::vector<size_t> forebears_of(size_t receiver, size_t degree, size_t most);

}  // namespace refract::object
