// SPDX-License-Identifier: Apache-2.0
// One run of the key-value store in a simulated world: a server that crashes and recovers, clients that read
// directly and by calls, hold views, stop and continue, and a model that judges every answer.
#pragma once

#include <cstdint>
#include <string>

#include "tests/campaign/mutation.h"

#include "refract/kv/owner/table/slot_uses.h"

namespace refract::campaign {

struct KvRun {
  uint64_t seed = 1;
  int clients = 3;       // Hosts, with two workers each.
  int operations = 120;  // Of each worker.
  int keys = 34;         // Of each worker, at most so many at once.
  bool crashes = true;   // Of the server, memory kept: some runs have many, most have a few.
  bool pauses = true;    // Server and clients stop for a while.
  bool cuts = true;      // Links break.
  bool crowded = false;  // Two keys of three were chosen to fall into the same few buckets.
  kv::EvictionPolicy eviction = kv::EvictionPolicy::kNone;  // Else the memory is small, and it is needed.
  double stall_chance = 0.01;  // Before each load of a direct read on the first host; elsewhere a twentieth.
  Mutation mutation = Mutation::kNone;
};

// What happened, so that a campaign can say what it has covered.
struct KvOutcome {
  std::string wrong;       // Empty: all answers were right. Else the first wrong one, with the seed.
  uint64_t judged = 0;     // Reads that were checked.
  uint64_t direct = 0;     // Of them by direct reads.
  uint64_t stalled = 0;    // Of these, reads during which time passed.
  uint64_t overtaken = 0;  // Reads whose buffer was reused under them.
  uint64_t views = 0;      // Views held, and compared at their end.
  uint64_t views_over_crash = 0;
  uint64_t listed = 0;  // Keys that scans gave.
  uint64_t splits = 0;
  uint64_t batches = 0;          // That changed several keys at one moment,
  uint64_t batches_refused = 0;  // for a condition that did not hold,
  uint64_t batches_unknown = 0;  // and whose fate no client learned.
  uint64_t shared = 0;           // Operations without a call of their own.
  uint64_t lines_linked = 0;
  uint64_t lines_unlinked = 0;
  uint64_t crowded = 0;  // The server's turns with a crowded bucket.
  uint64_t crashes = 0;
  uint64_t reconnects = 0;
  uint64_t regions = 0;  // By which the space grew.
  uint64_t expired = 0;
  uint64_t evicted = 0;
  uint64_t spared = 0;    // Entries that were not evicted because they were pinned.
  uint64_t no_space = 0;  // Writes refused because memory was short.
  uint64_t unknown = 0;   // Writes whose fate no client learned.
  uint64_t pulled = 0;    // Values that the server READ from their clients,
  uint64_t unpulled = 0;  // and those that it could not.
  uint64_t trace_hash = 0;

  // Adds the other's numbers; `wrong` and the hash stay.
  void add(const KvOutcome& other);
};

[[nodiscard]] KvOutcome run_kv(const KvRun& run);

}  // namespace refract::campaign
