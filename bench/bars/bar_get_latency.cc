// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "bench/bars/bars.h"
#include "bench/bars/loaded_node.h"
#include "bench/load/entry.h"
#include "bench/measure/machine.h"
#include "bench/measure/pointer_chase.h"

#include "refract/base/units.h"

namespace refract::bench::bar_get_latency {
namespace {

// A get waits for two dependent misses, the bucket's and the buffer's; the rest of it should hide behind
// them.
double two_reads_median_ns(const BarRun& run, const PointerChase& chase, Samples& samples, uint64_t& line) {
  samples.clear();
  const uint64_t operations = run.options.operations / 8;
  for (uint64_t i = 0; i < operations; ++i) {
    const uint64_t before = ticks_before();
    line = chase.next(chase.next(line));
    keep(line);
    samples.record(ticks_after() - before);
  }
  return run.timer.ns(samples.quantile_ticks(0.5));
}

Reported<Outcome> measure_get_latency(BarRun& run) {
  Reported<LoadedNode> loaded = start_loaded_node(run, run.options.entries);
  if (!loaded) return report(loaded.error());
  const Result<NodeStat> stat = loaded->client.stat();
  if (!stat) return failed("stat", stat.error().code);
  const uint64_t footprint = stat->bytes_total;
  // On pages as the node has them: large ones if they were granted, as private memory then is, too.
  const bool is_large = meminfo("ShmemHugePages") * kKiB >= footprint;
  const Reported<PointerChase> chase =
      PointerChase::create(footprint, is_large ? Pages::kTransparent : Pages::kSmall);
  if (!chase) return report(chase.error());
  Samples samples(run.options.operations / 8);
  uint64_t line = 0;

  return in_turns(run,
                  fmt::format("{} pages both; the reads walk {} MiB, as much as the node's regions have",
                              is_large ? "2 MiB" : "4 KiB", footprint / kMiB),
                  [&](uint64_t turn) {
                    return ratio_of({.ours = {"get", get_median_ns(run, loaded->client, run.options.entries,
                                                                   samples, turn)},
                                     .theirs = {"two reads", two_reads_median_ns(run, *chase, samples, line)},
                                     .unit = "ns"});
                  });
}

const BarRows kRows = {
    {"get-latency", "get on shm, median / two dependent 64 B reads", "at most 1.05", Sense::kAtMost, 1.05,
     "x", measure_get_latency},
};

}  // namespace
}  // namespace refract::bench::bar_get_latency
