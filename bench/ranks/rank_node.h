// SPDX-License-Identifier: Apache-2.0
// A rank's own node, one of a list that has a node of each rank, and its client.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/bars/object_node.h"
#include "bench/ranks/ranks.h"

#include "refract/base/report.h"

namespace refract::bench {

struct RankNode {
  test::TemporaryFolder folder;
  ObjectNode ends;
  std::vector<std::string> addresses;  // Of the ranks' hosts, by rank: numbers.
};

// Returns when all ranks have theirs. Ranks of one host reach each other over loopback; else by the first
// IPv4 address that a host's name stands for. `objects_bytes`: of objects that a node must hold.
[[nodiscard]] Reported<RankNode> start_rank_node(Ranks& ranks, const std::string& program,
                                                 uint64_t objects_bytes);

}  // namespace refract::bench
