// SPDX-License-Identifier: Apache-2.0
// One run of two or three nodes of one shard each, in a simulated world, with clients whose transactions span
// the nodes; what they were told is judged by the checker of strict serialisability.
#pragma once

#include <cstdint>

#include "tests/nodes_transactions/node_lines.h"
#include "tests/nodes_transactions/nodes_chaos.h"
#include "tests/transactions/transactions.h"

namespace refract::campaign {

struct NodesOutcome {
  TransactionOutcome clients;
  LineCounts lines;
  NodesChaos::Counts chaos;
  uint64_t far_prepared = 0;  // Parts, of the last lives alone; likewise:
  uint64_t far_decided = 0;   // transactions,
  uint64_t far_reads = 0;     // and reads that waited for a look.
  uint64_t adopted = 0;       // Far parts that a restart has found.
  uint64_t lost_calls = 0;    // Of clients.
  uint64_t lingered = 0;      // Transactions, between prepare and decision.
  uint64_t away = 0;          // How often a node was seen to take another one for away.

  void add(const NodesOutcome& other);
};

[[nodiscard]] NodesOutcome run_nodes(uint64_t seed, Mutation mutation = Mutation::kNone);

}  // namespace refract::campaign
