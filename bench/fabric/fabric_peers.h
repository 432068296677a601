// SPDX-License-Identifier: Apache-2.0
// Programs of others that measure the same things, run beside ours: UCX's ucx_perftest, libfabric's
// fi_pingpong, and perftest where there is an RDMA device.
//
// Each runs as two processes, on cores 0 and 1 as ours, both polling. What of theirs is like what of ours,
// and where it is not quite: docs/benchmarks.md.
//
// Control path.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/fabric/fabric_client.h"

#include "refract/base/report.h"

namespace refract::bench {

// One thing that both sides measure. Bandwidth: `depth` in flight; latency: 0.
struct FabricCase {
  Shape shape = Shape::kRead;
  size_t bytes = 8;
  size_t depth = 0;

  bool operator==(const FabricCase&) const = default;
};

// What a peer's number is a number of.
enum class Statistic : uint8_t { kMedian, kMean };

struct PeerCase {
  FabricCase of;
  uint64_t iterations = 1'000;
};

struct Peer {
  std::string_view name;      // "ucx", and which version it is told by version().
  std::string_view program;   // What must be in PATH.
  std::string_view install;   // The command that installs it on Debian.
  std::string_view provider;  // Of ours, beside which it is measured.
  std::string_view what;      // How it is run, for people.
  Statistic statistic;
  bool (*has)(const FabricCase& of);
  // Nanoseconds of one operation or transfer, or bytes a second, in the order of the cases. REQUIRES: has()
  // of each.
  Reported<std::vector<double>> (*run)(std::span<const PeerCase> cases);
};

[[nodiscard]] std::span<const Peer> fabric_peers() noexcept;
[[nodiscard]] bool is_installed(const Peer& peer);
// Why a peer that is installed cannot run here; empty: it can.
[[nodiscard]] std::string obstacle_of(const Peer& peer);
// "UCT version=1.13.1", as the program or its library says; empty where it does not.
[[nodiscard]] std::string version_of(const Peer& peer);

// What the programs print, read. A row for each case, in order; kMalformed where one is missing.
[[nodiscard]] Reported<std::vector<double>> read_ucx(std::string_view output,
                                                     std::span<const PeerCase> cases);
[[nodiscard]] Reported<double> read_pingpong(std::string_view output);
[[nodiscard]] Reported<double> read_perftest(std::string_view output, const FabricCase& of);

}  // namespace refract::bench
