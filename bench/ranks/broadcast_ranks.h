// SPDX-License-Identifier: Apache-2.0
// One object of rank 0 brought to the nodes of all others, size after size, beside MPI_Bcast of as many bytes
// and one pull, in turns.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/ranks/object_ranks.h"
#include "bench/ranks/ranks.h"

#include "refract/base/report.h"

namespace refract::bench {

enum class BroadcastWay : uint8_t {
  kObjects,  // Objects::broadcast, until all nodes have a sealed copy and rank 0 was told so.
  kMpi,      // MPI_Bcast of the bytes alone, until each rank has told rank 0 that it has them.
  kPull,     // By one rank: a prefetch from rank 0's node.
};
inline constexpr std::array kBroadcastWays = {BroadcastWay::kObjects, BroadcastWay::kMpi,
                                              BroadcastWay::kPull};
[[nodiscard]] std::string_view text(BroadcastWay way) noexcept;

struct BroadcastPoint {
  uint64_t bytes = 0;
  // Seconds, one of each turn, by BroadcastWay; those of MPI only where there is MPI.
  std::array<std::vector<double>, kBroadcastWays.size()> seconds;
};

// Of rank 0. Each rank compares all bytes that came, in each turn. Of the options turn_bytes counts for
// nothing, and ranks are not apart.
[[nodiscard]] Reported<std::vector<BroadcastPoint>> measure_broadcasts(Ranks& ranks,
                                                                       const RanksOptions& options);
// Of the others: until rank 0 has measured.
[[nodiscard]] Reported<> take_broadcasts(Ranks& ranks, const RanksOptions& options);

}  // namespace refract::bench
