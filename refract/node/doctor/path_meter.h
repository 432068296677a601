// SPDX-License-Identifier: Apache-2.0
// What a path carries: latency and bandwidth over a channel whose two ends are in this process.
//
// Bounded: each figure is taken for a given time, and a path that gives no sign of life for long is given up.
// The figures are those of one thread that drives both ends; refract-bench fabric measures with two.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "refract/base/report.h"
#include "refract/base/units.h"
#include "refract/node/doctor/loop_back.h"

namespace refract::node {

struct PathFigures {
  struct Latency {
    uint64_t ns_p50 = 0;
    uint64_t ns_p99 = 0;
  };
  struct Bandwidth {
    uint64_t request_bytes = 0;
    uint64_t read_bytes_per_s = 0;
    uint64_t write_bytes_per_s = 0;
  };
  Latency read;     // A READ of 8 bytes, posted until completed.
  Latency message;  // A message of 8 bytes and its answer.
  std::array<Bandwidth, 2> large;
};

// How many figures a path has, for those who show how far the work has come.
inline constexpr uint32_t kFiguresOfPath = 6;

struct MeterOptions {
  uint64_t each_ns = 150 * kMillisecond_ns;
  uint64_t patience_ns = 20 * kSecond_ns;  // Without a completion.
  std::function<void()> on_figure = {};    // After each.
};

// The code and the sentence are those of the first request that failed.
[[nodiscard]] Reported<PathFigures> measure(LoopBack& ends, const MeterOptions& options);

// "READ of 8 B 1.2 us (p99 2.0 us), ...", for people.
[[nodiscard]] std::string text(const PathFigures& figures);
// "850 ns", "12.4 us", "3.1 ms"; "12.3 GB/s", "850 MB/s".
[[nodiscard]] std::string latency_text(uint64_t ns);
[[nodiscard]] std::string rate_text(uint64_t bytes_per_s);

}  // namespace refract::node
