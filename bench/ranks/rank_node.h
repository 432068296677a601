// SPDX-License-Identifier: Apache-2.0
// A rank's own node, one of a list that has a node of each rank, and its client.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/bars/object_node.h"
#include "bench/measure/delayed_path.h"
#include "bench/ranks/ranks.h"

#include "refract/base/report.h"

namespace refract::bench {

struct RankNode {
  std::unique_ptr<DelayedPath> path;  // Of rank 0, where the two are apart.
  test::TemporaryFolder folder;
  ObjectNode ends;
  std::vector<std::string> addresses;  // Of the ranks' hosts, by rank: numbers.
};

struct RankNodeOptions {
  std::string program;         // refractd
  uint64_t objects_bytes = 0;  // Of objects that a node must hold.
  std::string spin = {};       // The knob server.spin; empty: its default.
  // Two forks of root: rank 1 goes to the far end of a path, into a network of its own, for good.
  bool is_apart = false;
};

// Returns when all ranks have theirs. Ranks of one host reach each other over loopback; else by the first
// IPv4 address that a host's name stands for. kUnsupported: they cannot be apart here.
[[nodiscard]] Reported<RankNode> start_rank_node(Ranks& ranks, const RankNodeOptions& options);

}  // namespace refract::bench
