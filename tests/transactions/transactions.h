// SPDX-License-Identifier: Apache-2.0
// One run of a node of two or three shards in a simulated world, with clients whose transactions span the
// shards, beside others that put, get and erase the same keys plainly; what they were told is judged by the
// checker of strict serialisability.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tests/campaign/mutation.h"
#include "tests/transactions/memory_log.h"

namespace refract::campaign {

struct TransactionRun {
  uint64_t seed = 1;
  int clients = 3;       // Hosts, with two transactors each.
  int operations = 400;  // Of all together.
  Mutation mutation = Mutation::kNone;
  // Of each shard's log; nothing: as the seed says.
  std::optional<Durability> durability = {};
  // Each shard is a node of its own (tests/nodes_transactions).
  bool is_over_nodes = false;

  // Few decision words, so that each is used again and again.
  [[nodiscard]] bool has_few_words() const noexcept {
    const bool needs_few = mutation == Mutation::kForgetEarly || mutation == Mutation::kGoneTooSoon ||
                           mutation == Mutation::kForgetUnasked;
    return seed % 6 == 1 || needs_few;
  }
  // Of several nodes: how long one is away at most.
  [[nodiscard]] bool is_long() const noexcept { return is_over_nodes && (seed % 3 == 1 || has_few_words()); }
  [[nodiscard]] bool is_very_long() const noexcept { return is_over_nodes && seed % 13 == 5; }
};

// Of its shards' logs.
[[nodiscard]] Durability durability_of(const TransactionRun& run);

// What happened, so that a campaign can say what it has covered.
struct TransactionOutcome {
  std::string wrong;    // Empty: all was right. Else the first contradiction, with the seed.
  std::string picture;  // For a terminal.
  std::string svg;
  uint64_t transactions = 0;       // Of the history, plain operations too.
  uint64_t committed = 0;          // Over several shards, by a coordinator,
  uint64_t refused = 0;            // and those refused for any reason,
  uint64_t conflicts = 0;          // for another transaction,
  uint64_t conditions = 0;         // for a condition,
  uint64_t unknown = 0;            // or whose outcome was not learned.
  uint64_t learned = 0;            // Whose answer was lost, and which the home was asked for;
  uint64_t learned_with_rows = 0;  // of these, those with functions, whose answers were there.
  uint64_t rows = 0;               // Functions that were answered.
  uint64_t read_only = 0;          // That write nothing, over several shards.
  uint64_t batches = 0;            // Of one shard, by one call.
  uint64_t plain = 0;
  uint64_t direct = 0;   // Reads of memory,
  uint64_t stalled = 0;  // of these, those during which time passed,
  uint64_t asked = 0;    // and those that were left to the owner.
  uint64_t remote = 0;   // READs of memory by the network.
  uint64_t views = 0;
  uint64_t listed = 0;          // Keys, by scans.
  uint64_t leases = 0;          // Entries that were to expire,
  uint64_t evicted = 0;         // entries that were evicted,
  uint64_t evicted_judged = 0;  // and those of them that others read.
  uint64_t splits = 0;          // Of tables.
  uint64_t words_observed = 0;  // Of homes, by direct readers.
  uint64_t demands = 0;         // Of the janitor, which were about something.
  uint64_t deaths = 0;          // Of clients.
  uint64_t crashes = 0;         // Of the node.
  uint64_t recoveries_killed = 0;
  uint64_t reopened = 0;  // Sessions.
  uint64_t sent_twice = 0;
  uint64_t late_decisions = 0;  // Over a session that was not given the word.
  uint64_t overdue = 0;         // Parts that a timer has settled,
  uint64_t orphaned = 0;        // and those whose session closed.
  uint64_t filled = 0;          // New memories, from logs whose rings were there,
  uint64_t host_deaths = 0;     // and from what the disks had.
  MemoryLog::Counts log = {};
  uint64_t settled_in_fills = 0;  // Parts.
  uint64_t taken_back = 0;        // Transactions that were acknowledged, and that a host's death took.
  uint64_t unjudged = 0;          // Of what it took; nothing can be said of these.
  uint64_t trace_hash = 0;

  // Adds the other's numbers; what is wrong, the pictures and the hash stay.
  void add(const TransactionOutcome& other);
};

[[nodiscard]] TransactionOutcome run_transactions(const TransactionRun& run);

}  // namespace refract::campaign
