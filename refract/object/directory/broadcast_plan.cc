// SPDX-License-Identifier: Apache-2.0
#include "refract/object/directory/broadcast_plan.h"

#include <algorithm>

namespace refract::object {

namespace {

// As long as nothing was measured.
constexpr uint64_t kRoundTrip_ns = 100'000;
constexpr uint64_t kBytesPerS = 1'000'000'000;
// A piece is told of, asked for and brought; the processes wake up for each of that.
constexpr double kRoundTripsOfHop = 1.5;
constexpr double kWakeUps_ns = 150'000;
// What a node does for a piece and a child, beside its bytes.
constexpr double kPiece_ns = 10'000;

// How many nodes there are between the holder and the last receiver, and it.
[[nodiscard]] size_t depth_of(size_t receivers, size_t degree) noexcept {
  size_t depth = 0;
  size_t level = degree;
  for (size_t below = receivers; below > 0; ++depth) {
    below -= std::min(below, level);
    level *= degree;
  }
  return depth;
}

}  // namespace

uint64_t broadcast_time(size_t receivers, uint64_t bytes, const BroadcastPaths& paths,
                        const BroadcastShape& shape) noexcept {
  const auto round_trip_ns =
      static_cast<double>(paths.round_trip_ns != 0 ? paths.round_trip_ns : kRoundTrip_ns);
  const auto bytes_per_s = static_cast<double>(paths.bytes_per_s != 0 ? paths.bytes_per_s : kBytesPerS);
  const auto degree = static_cast<double>(std::min(shape.degree, receivers));
  const double piece_ns = static_cast<double>(shape.piece_bytes) * 1e9 / bytes_per_s + kPiece_ns;
  const auto pieces =
      static_cast<double>(shape.piece_bytes == 0 ? 1 : (bytes + shape.piece_bytes - 1) / shape.piece_bytes);
  const auto depth = static_cast<double>(depth_of(receivers, shape.degree));
  const double hop_ns = kRoundTripsOfHop * round_trip_ns + kWakeUps_ns;
  // Behind the first level each one adds a piece for each child, and the way there.
  const double ns = degree * pieces * piece_ns + hop_ns + (depth - 1) * (hop_ns + degree * piece_ns);
  return static_cast<uint64_t>(std::max(ns, 0.0));
}

BroadcastShape broadcast_shape(size_t receivers, uint64_t bytes, const BroadcastPaths& paths) noexcept {
  BroadcastShape best{.degree = std::max<size_t>(receivers, 1), .piece_bytes = kBroadcastPieceMax};
  if (receivers <= 1 || bytes < kBroadcastBytesMin) return best;
  uint64_t best_ns = broadcast_time(receivers, bytes, paths, best);
  for (size_t degree = 1; degree < receivers; degree *= 2) {
    for (uint64_t piece = kBroadcastPieceMax; piece >= kBroadcastPieceMin; piece /= 2) {
      const BroadcastShape shape{.degree = degree, .piece_bytes = piece};
      const uint64_t ns = broadcast_time(receivers, bytes, paths, shape);
      if (ns >= best_ns) continue;
      best = shape;
      best_ns = ns;
    }
  }
  return best;
}

std::vector<size_t> forebears_of(size_t receiver, size_t degree, size_t most) {
  std::vector<size_t> forebears;
  while (receiver >= degree && forebears.size() < most) {
    receiver = receiver / degree - 1;
    forebears.push_back(receiver);
  }
  return forebears;
}

}  // namespace refract::object
