// SPDX-License-Identifier: Apache-2.0
// What a snapshot costs those who put and get meanwhile, and how fast it is itself.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "bench/bars/bars.h"
#include "bench/bars/durable_node.h"
#include "bench/bars/loaded_node.h"
#include "bench/load/refract_driver.h"
#include "bench/measure/disk_pace.h"
#include "bench/sides/rivals.h"

#include "refract/base/units.h"

namespace refract::bench::bar_snapshot {
namespace {

// A server polls for a while behind each request before it sleeps. At this rate it sleeps most of the time:
// on two cores, of which the client polls on one, nothing else would be left for the snapshot.
constexpr double kRate = 10'000;
constexpr double kSliceSeconds = 0.25;
// The bar's. A machine that has longer ones without a snapshot cannot show whether snapshots make any.
constexpr double kPauseMax_ms = 2;

struct Latencies {
  Histogram quiet_ns;
  Histogram during_ns;
};

WorkloadOptions paced(const BarRun& run, uint64_t slice) {
  return {.keys = run.options.many_entries,
          .get_share = 0.5,
          .seconds = kSliceSeconds,
          .rate = kRate,
          .seed = slice + 1};
}

Reported<> add_slice(const BarRun& run, StoreDriver& driver, uint64_t slice, Histogram& to) {
  Workload workload(paced(run, slice), run.timer);
  const Reported<WorkloadResult> result = run_workload(driver, workload);
  if (!result) return report(result.error());
  to.merge(result->latency_ns);
  return {};
}

// One snapshot, and as many slices of quiet before it.
Reported<Latencies> measure_latencies(const BarRun& run, const DurableNode& node, StoreDriver& driver,
                                      uint64_t& slices) {
  Latencies latencies;
  Reported<test::Process> snapshot = node.begin_snapshot();
  if (!snapshot) return report(snapshot.error());
  const uint64_t first = slices;
  while (snapshot->is_running()) {
    if (const Reported<> added = add_slice(run, driver, slices++, latencies.during_ns); !added)
      return report(added.error());
  }
  if (const Reported<> ended = node.end_snapshot(*snapshot); !ended) return report(ended.error());
  for (uint64_t count = slices - first; count > 0; --count) {
    if (const Reported<> added = add_slice(run, driver, slices++, latencies.quiet_ns); !added)
      return report(added.error());
  }
  return latencies;
}

double microseconds(uint64_t ns) {
  return static_cast<double>(ns) * 1e-3;
}

using Judged = double (*)(const Latencies& latencies);

Reported<Outcome> measure_latency(BarRun& run, Judged judged) {
  Reported<DurableNode> node = DurableNode::start_loaded(run, {.entries = run.options.many_entries});
  if (!node) return report(node.error());
  pin_to_core(0);
  const Contents contents(sizeof(uint64_t) * 2, 64);
  if (const Reported<> filled = fill_node(node->node(), contents, run.options.many_entries); !filled)
    return report(filled.error());
  const Reported<std::unique_ptr<RefractDriver>> driver =
      RefractDriver::connect({.address = node->node().socket_path(), .client = {.populate = true}},
                             {.depth = 4, .has_rate = true}, contents);
  if (!driver) return report(driver.error());
  uint64_t slices = 0;
  return in_turns(
      run,
      fmt::format(
          "{} entries; {:.0f} operations a second over shm, gets and puts alike, due at moments of their "
          "own; everysec, snapshots at the default rate; client on core 0, server on 1, the snapshot's "
          "thread on either",
          run.options.many_entries, kRate),
      [&](uint64_t turn) -> Reported<Turn> {
        if (turn == 0) {
          // So many puts make a node write a snapshot by itself. This one comes behind it.
          if (const Reported<double> done = node->snapshot_seconds(); !done) return report(done.error());
        }
        const Reported<Latencies> latencies = measure_latencies(run, *node, **driver, slices);
        if (!latencies) return report(latencies.error());
        return Turn{judged(*latencies),
                    {{"p99 quiet", microseconds(latencies->quiet_ns.quantile(0.99)), "us"},
                     {"p99 during", microseconds(latencies->during_ns.quantile(0.99)), "us"},
                     {"longest quiet", microseconds(latencies->quiet_ns.max()), "us"},
                     {"longest during", microseconds(latencies->during_ns.max()), "us"}}};
      },
      {.turns_max = 5, .warms_up = false});
}

Reported<Outcome> measure_snapshot_latency(BarRun& run) {
  return measure_latency(run, [](const Latencies& latencies) {
    return static_cast<double>(latencies.during_ns.quantile(0.99)) /
           static_cast<double>(latencies.quiet_ns.quantile(0.99));
  });
}

Reported<Outcome> measure_snapshot_pause(BarRun& run) {
  Reported<Outcome> outcome = measure_latency(
      run, [](const Latencies& latencies) { return static_cast<double>(latencies.during_ns.max()) * 1e-6; });
  if (!outcome) return outcome;
  const auto quiet = std::ranges::find(outcome->details, "longest quiet", &Detail::name);
  outcome->is_disturbed = quiet->value > kPauseMax_ms * 1e3;
  if (outcome->is_disturbed)
    outcome->note += fmt::format("; disturbed: pauses of {:.1f} ms without a snapshot", quiet->value * 1e-3);
  return outcome;
}

Reported<Outcome> measure_snapshot_speed(BarRun& run) {
  Reported<DurableNode> node =
      DurableNode::start_loaded(run, {.entries = run.options.many_entries, .snapshots_at_full_speed = true});
  if (!node) return report(node.error());
  return in_turns(
      run,
      fmt::format("{} entries; refract snapshot, from its start to its end, without a bound on the rate; "
                  "both synced, in $TMPDIR",
                  run.options.many_entries),
      [&](uint64_t) -> Reported<Turn> {
        unpin();
        const Reported<double> seconds = node->snapshot_seconds();
        if (!seconds) return report(seconds.error());
        const std::string path = node->snapshot_path();
        const uint64_t bytes = path.empty() ? 0 : std::filesystem::file_size(path);
        const Reported<double> disk_rate = disk_write_rate(node->folder(), bytes);
        return ratio_to_disk(run, {"snapshot", static_cast<double>(bytes) / *seconds},
                             {"a file of the same size", disk_rate});
      },
      {.warms_up = false});
}

const BarRows kRows = {
    {"snapshot-latency", "puts and gets on shm during a snapshot, p99 / without", "at most 1.50",
     Sense::kAtMost, 1.5, "x", measure_snapshot_latency},
    {"snapshot-pause", "the longest of them during a snapshot", "at most 2 ms", Sense::kAtMost, 2, "ms",
     measure_snapshot_pause},
    {"snapshot-speed", "snapshot, bytes a second / a synced file, or memcpy", "at least 0.50",
     Sense::kAtLeast, 0.5, "x", measure_snapshot_speed},
};

}  // namespace
}  // namespace refract::bench::bar_snapshot
