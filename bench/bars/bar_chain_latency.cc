// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "bench/bars/bars.h"
#include "bench/bars/loaded_node.h"
#include "bench/load/entry.h"

#include "refract/client/client.h"

namespace refract::bench::bar_chain_latency {
namespace {

// Few enough that a client remembers the slots of all.
constexpr uint64_t kEntries = 1'000;

Reported<Outcome> measure_chain_get(BarRun& run) {
  const uint64_t entries = std::min(kEntries, run.options.entries);
  const Reported<LoadedNode> loaded = start_loaded_node(run, entries);
  if (!loaded) return report(loaded.error());
  // Both over the same kind of ring to the same server.
  Reported<Client> by_calls = Client::connect(loaded->node.socket_path(), {.paths = Paths::kRpc});
  if (!by_calls) return report(by_calls.error());
  Reported<Client> by_chains = Client::connect(loaded->node.socket_path(), {.paths = Paths::kChain});
  if (!by_chains) return report(by_chains.error());
  Samples samples(run.options.operations / 20);

  return in_turns(run, "1,000 entries of 16 + 64 B; client on core 0, server on core 1", [&](uint64_t turn) {
    return ratio_of({.ours = {"chain", get_median_ns(run, *by_chains, entries, samples, turn)},
                     .theirs = {"call", get_median_ns(run, *by_calls, entries, samples, turn)},
                     .unit = "ns"});
  });
}

const BarRows kRows = {
    {"chain-get", "get by a chain on shm, slot known, median / get by a call", "at most 1.30", Sense::kAtMost,
     1.3, "x", measure_chain_get},
};

}  // namespace
}  // namespace refract::bench::bar_chain_latency
