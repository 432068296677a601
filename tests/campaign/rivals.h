// SPDX-License-Identifier: Apache-2.0
// One run of the key-value store in a simulated world in which all clients write the same keys: what clients
// were told, on both paths, goes to the linearizability checker. Meanwhile the table grows, entries expire,
// server and keeper are restarted, links are cut, hosts stop, slow down or die, clocks are stepped.
#pragma once

#include <cstdint>
#include <string>

#include "tests/campaign/model_log.h"
#include "tests/campaign/mutation.h"

namespace refract::campaign {

struct RivalRun {
  uint64_t seed = 1;
  int clients = 3;      // Hosts, with two rivals each.
  int operations = 60;  // Of each rival, and some direct reads with each.
  Mutation mutation = Mutation::kNone;
  // With another than kNone the node's memory is lost when its host dies, and filled from a log then.
  Durability durability = Durability::kNone;
  // The node is small, and evicts: each eviction is an erasure in the history.
  bool evicts = false;
  // What else is put in a pipeline is put at one moment.
  bool batches = false;
};

struct RivalOutcome {
  std::string wrong;    // Empty: every answer can be explained. Else what cannot.
  std::string picture;  // The contradiction for a terminal, and as a file.
  std::string svg;
  uint64_t operations = 0;  // In the history.
  uint64_t direct = 0;
  uint64_t stalled = 0;            // Direct reads during which time passed.
  uint64_t overtaken = 0;          // Reads whose buffer was reused under them.
  uint64_t unknown = 0;            // Writes whose fate no client learned.
  uint64_t repeated = 0;           // Writes that were sent again under their identity,
  uint64_t repeated_answered = 0;  // and then got an answer.
  uint64_t mismatches = 0;         // Writes that met another version.
  uint64_t expiring = 0;
  uint64_t pulled = 0;    // Values that servers READ from their clients,
  uint64_t unpulled = 0;  // and those that they could not.
  uint64_t large = 0;     // Values beyond one message, put or got by calls.
  uint64_t listed = 0;
  uint64_t splits = 0;
  uint64_t regions = 0;
  uint64_t crashes = 0;
  uint64_t lives = 0;    // Nodes, each made again without memory.
  uint64_t sharded = 0;  // Runs with two shards.
  uint64_t deaths = 0;   // Clients that never came back.
  uint64_t reconnects = 0;
  uint64_t no_space = 0;
  uint64_t evicted = 0;
  uint64_t sent_twice = 0;    // Messages of identified writes.
  uint64_t excluded_max = 0;  // Mismatches that one entry of unknown version met.
  uint64_t chain_gets = 0;    // Answered by chains; by clients that lived to tell, likewise below.
  uint64_t chain_puts = 0;
  uint64_t batches = 0;
  uint64_t chain_conflicts = 0;  // Swaps that met what another client had stored meanwhile.
  uint64_t remote_gets = 0;      // Answered by READs of the server's memory,
  uint64_t remote_calls = 0;     // and left to calls by clients that read like that.
  uint64_t remote_retries = 0;   // They met a change and looked again.
  uint64_t remote_hits = 0;      // Places seen before,
  uint64_t remote_stale = 0;     // of which so many had been written again.
  uint64_t remote_expiring = 0;  // Entries about to expire, or just expired.
  ModelLog::Counts log;
  uint64_t forgotten = 0;  // Answers that were taken out of the history: of what a crash then took back.
  uint64_t read_only = 0;  // Writes refused because the log had failed.
  uint64_t undecided = 0;  // Keys on which the checker has no word.
  uint64_t steps = 0;      // Of the checker.
  uint64_t trace_hash = 0;

  // Adds the other's numbers.
  void add(const RivalOutcome& other);
};

[[nodiscard]] RivalOutcome run_rivals(const RivalRun& run);

}  // namespace refract::campaign
