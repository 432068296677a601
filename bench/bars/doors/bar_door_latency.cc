// SPDX-License-Identifier: Apache-2.0
// How late replies are at a rate that both servers can serve.
#include <fmt/core.h>

#include <memory>

#include "bench/bars/bars.h"
#include "bench/bars/doors/command_crowd.h"
#include "bench/bars/doors/door_beside_redis.h"

namespace refract::bench::bar_door_latency {
namespace {

constexpr size_t kConnections = 50;
constexpr double kSlicesAtRate = 4;

Reported<WorkloadResult> run_crowd(const BarRun& run, CommandCrowd& crowd, WorkloadOptions options) {
  options.keys = run.options.entries;
  Workload workload(options, run.timer);
  Reported<WorkloadResult> result = run_workload(crowd, workload);
  if (result && result->missing > 0) {
    return report(Code::kCorrupt, "a get found nothing where an entry was put");
  }
  return result;
}

Reported<Outcome> measure(BarRun& run, double get_share) {
  Reported<DoorBesideRedis> sides =
      DoorBesideRedis::start(run, {.keys = run.options.entries, .held = Held::kContents, .is_bound = true});
  if (!sides) return report(sides.error());
  const auto ours = CommandCrowd::connect(sides->door_port(), kConnections, sides->contents());
  if (!ours) return report(ours.error());
  const auto theirs = CommandCrowd::connect(sides->redis_port(), kConnections, sides->contents());
  if (!theirs) return report(theirs.error());
  const Reported<WorkloadResult> peak = run_crowd(
      run, **theirs, {.get_share = get_share, .seconds = kSlicesAtRate * run.options.slice_seconds});
  if (!peak) return report(peak.error());
  const double rate = peak->per_second() / 2;
  const auto p99_us = [&](CommandCrowd& crowd, uint64_t turn) -> Reported<double> {
    const Reported<WorkloadResult> result = run_crowd(run, crowd,
                                                      {.get_share = get_share,
                                                       .seconds = kSlicesAtRate * run.options.slice_seconds,
                                                       .rate = rate,
                                                       .seed = turn + 1});
    if (!result) return report(result.error());
    return static_cast<double>(result->latency_ns.quantile(0.99)) * 1e-3;
  };
  return in_turns(
      run,
      fmt::format("{} connections, one in flight on each; {:.0f} operations a second are due at moments of "
                  "their own, half of what Redis serves of them at most; their thread polls, on core 0; "
                  "servers and doors on core 1",
                  kConnections, rate),
      [&](uint64_t turn) {
        return ratio_of({.ours = {"door", p99_us(**ours, turn)},
                         .theirs = {sides->redis_name(), p99_us(**theirs, turn)},
                         .unit = "us"});
      },
      {.over = Over::kTcp});
}

const BarRows kRows = {
    {"door-p99-get", "p99 of GET at half of Redis's peak, door / Redis", "at most 1.1", Sense::kAtMost, 1.1,
     "x", [](BarRun& run) { return measure(run, 1); }},
    {"door-p99-set", "p99 of SET at half of Redis's peak, door / Redis", "shown", Sense::kShown, 0, "x",
     [](BarRun& run) { return measure(run, 0); }},
};

}  // namespace
}  // namespace refract::bench::bar_door_latency
