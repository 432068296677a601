// SPDX-License-Identifier: Apache-2.0
// `refract-bench fabric`: every operation of the fabric's contract over every provider, over sizes, beside
// the programs of others that measure the same on this machine, in turns.
//
// Two processes: the end that serves on core 1, the one that measures on core 0; peers likewise. Within a
// turn ours runs over all sizes of one operation, then each peer does, and the ratios are those of one turn.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/fabric/fabric_client.h"
#include "bench/fabric/fabric_peers.h"
#include "bench/measure/machine.h"
#include "bench/measure/references.h"
#include "bench/report/findings.h"

#include "refract/base/report.h"

namespace refract::bench {

struct FabricPoint;

struct FabricOptions {
  std::vector<std::string> providers;  // Empty: all.
  std::vector<Shape> shapes;           // Empty: all.
  std::vector<size_t> sizes = {8, 64, 512, 4'096, 32'768, 262'144, 1'048'576, 4'194'304};
  size_t depth = 16;  // In flight, for bandwidth; 0: latency alone.
  bool has_latency = true;
  double seconds = 0.05;  // Of ours, for a size in a turn.
  int turns = 5;
  bool has_peers = true;
  std::string peer;     // The only one of interest; empty: all.
  std::string address;  // Of an end that serves elsewhere; empty: one of our own. REQUIRES: one provider.
  std::string program;  // refract-bench, which is started to serve; empty: this one.
  // Called as soon as the points of one operation are there; may be empty.
  std::function<void(std::span<const FabricPoint>)> on_points{};
};

struct PeerFigures {
  const Peer* peer = nullptr;
  std::vector<double> turns;   // As Peer::run has them.
  std::vector<double> ratios;  // Ours / the peer's of the same turn.
};

struct FabricPoint {
  std::string provider;
  FabricCase of;
  std::vector<double> turns{};  // Latency: medians in ns. Flow: bytes a second.
  std::vector<double> means{};  // Latency only, likewise below.
  std::vector<double> p99s{};
  std::vector<double> mins{};
  std::vector<PeerFigures> peers{};
};

// What was not measured beside ours, and what would change that.
struct FabricGap {
  std::string provider;
  std::string what;
  std::string next;
};

struct FabricResult {
  std::vector<FabricPoint> points;
  std::vector<FabricGap> gaps;
  std::vector<std::string> peers;  // "shm: ucx 1.13.1, ucx_perftest with ..."
  std::string placement;
  Reference before;  // Zeros where none were measured.
  Reference after;
};

[[nodiscard]] Reported<FabricResult> run_fabric(const FabricOptions& options, const Timer& timer);

// What stands before the points; the points, a line each and peer; who ran beside, and what is missing.
[[nodiscard]] std::string heading_of(const FabricOptions& options);
[[nodiscard]] std::string lines_of(std::span<const FabricPoint> points);
[[nodiscard]] std::string details_of(const FabricResult& result);
[[nodiscard]] Findings findings_of(const FabricOptions& options, const FabricResult& result);

// "read 64 B, 16 in flight"
[[nodiscard]] std::string text(const FabricCase& of);

}  // namespace refract::bench
