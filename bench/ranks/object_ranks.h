// SPDX-License-Identifier: Apache-2.0
// Pulls between the nodes of ranks: rank 0 pulls what the others hold, object after object, in each way in
// turns.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/ranks/ranks.h"

#include "refract/base/report.h"
#include "refract/base/units.h"

namespace refract::bench {

enum class PullWay : uint8_t {
  kSocket,  // Bytes alone, from memory to memory, through a socket that blocks, in pieces of 4 KiB.
  kSend,    // From look-up to seal, likewise the two below.
  kRead,
  kAuto,
  kMpi,  // Bytes alone, by MPI_Send and MPI_Recv behind a request of 8 bytes.
};
inline constexpr std::array kPullWays = {PullWay::kSocket, PullWay::kSend, PullWay::kRead, PullWay::kAuto,
                                         PullWay::kMpi};
[[nodiscard]] std::string_view text(PullWay way) noexcept;

struct RanksOptions {
  std::vector<uint64_t> sizes;
  int turns = 5;                    // That count, behind one that does not.
  uint64_t turn_bytes = 16 * kMiB;  // Of each way and size, but at most 64 objects, and one of each holder.
  std::string node_program;
  std::string spin = {};  // RankNodeOptions::spin
  bool is_apart = false;  // RankNodeOptions::is_apart
};

struct RanksPoint {
  uint64_t bytes = 0;    // Of an object,
  uint64_t objects = 0;  // and how many of them a turn has.
  // Bytes a second, one of each turn, by PullWay; those of MPI only where there is MPI.
  std::array<std::vector<double>, kPullWays.size()> rates;
};

// Of rank 0. Every byte that came is compared with what was sent, of one object for each turn and way.
[[nodiscard]] Reported<std::vector<RanksPoint>> measure_pulls(Ranks& ranks, const RanksOptions& options);
// Of the others: until rank 0 has measured.
[[nodiscard]] Reported<> hold_objects(Ranks& ranks, const RanksOptions& options);

}  // namespace refract::bench
