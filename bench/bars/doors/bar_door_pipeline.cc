// SPDX-License-Identifier: Apache-2.0
// One connection to a door, beside one to Redis, and beside a client of the node itself.
#include <fmt/core.h>

#include <memory>

#include "bench/bars/bars.h"
#include "bench/bars/doors/door_beside_redis.h"
#include "bench/load/redis_driver.h"
#include "bench/load/refract_driver.h"

namespace refract::bench::bar_door_pipeline {
namespace {

// Operations a second.
Reported<double> rate_of(const BarRun& run, StoreDriver& driver, double get_share, uint64_t seed) {
  Workload workload({.keys = run.options.entries,
                     .get_share = get_share,
                     .seconds = run.options.slice_seconds,
                     .seed = seed},
                    run.timer);
  const Reported<WorkloadResult> result = run_workload(driver, workload);
  if (!result) return report(result.error());
  if (result->missing > 0) return report(Code::kCorrupt, "a get found nothing where an entry was put");
  return result->per_second();
}

Reported<Outcome> compare(BarRun& run, double get_share, StoreDriver& ours, const std::string& name,
                          StoreDriver& theirs, const std::string& note) {
  return in_turns(run, note,
                  [&](uint64_t turn) {
                    return ratio_of({.ours = {"door", rate_of(run, ours, get_share, turn + 1)},
                                     .theirs = {name, rate_of(run, theirs, get_share, turn + 1)},
                                     .unit = "k/s",
                                     .scale = 1e-3});
                  },
                  {.over = Over::kTcp});
}

Reported<Outcome> measure_beside_redis(BarRun& run, double get_share, size_t depth) {
  Reported<DoorBesideRedis> sides =
      DoorBesideRedis::start(run, {.keys = run.options.entries, .held = Held::kContents});
  if (!sides) return report(sides.error());
  const DriverOptions options = {.depth = depth, .waiting = Waiting::kBlocking};
  const auto ours = RedisDriver::connect(sides->door_port(), options, sides->contents());
  if (!ours) return report(ours.error());
  const auto theirs = RedisDriver::connect(sides->redis_port(), options, sides->contents());
  if (!theirs) return report(theirs.error());
  return compare(run, get_share, **ours, sides->redis_name(), **theirs,
                 fmt::format("one connection each, a sliding window of {}; the client sleeps when it waits, "
                             "on core 0; no other process is bound",
                             depth));
}

Reported<Outcome> measure_hop(BarRun& run, double get_share) {
  Reported<DoorBesideRedis> sides = DoorBesideRedis::start(
      run, {.keys = run.options.entries, .held = Held::kContents, .has_redis = false, .listens = true});
  if (!sides) return report(sides.error());
  const DriverOptions options = {.depth = 1, .waiting = Waiting::kBlocking};
  const auto ours = RedisDriver::connect(sides->door_port(), options, sides->contents());
  if (!ours) return report(ours.error());
  const auto native =
      RefractDriver::connect({.address = sides->node().tcp_address()}, options, sides->contents());
  if (!native) return report(native.error());
  return compare(run, get_share, **ours, "AsyncClient over TCP", **native,
                 "one connection each, one in flight; both clients sleep when they wait, on core 0; no other "
                 "process is bound");
}

const BarRows kRows = {
    {"door-get-16", "GET, one connection, 16 in flight, door / Redis", "at least 1.5", Sense::kAtLeast, 1.5,
     "x", [](BarRun& run) { return measure_beside_redis(run, 1, 16); }},
    {"door-get-64", "GET, one connection, 64 in flight, door / Redis", "at least 2.5", Sense::kAtLeast, 2.5,
     "x", [](BarRun& run) { return measure_beside_redis(run, 1, 64); }},
    {"door-set-16", "SET, one connection, 16 in flight, door / Redis", "at least 0.90", Sense::kAtLeast, 0.9,
     "x", [](BarRun& run) { return measure_beside_redis(run, 0, 16); }},
    {"door-set-64", "SET, one connection, 64 in flight, door / Redis", "at least 1.2", Sense::kAtLeast, 1.2,
     "x", [](BarRun& run) { return measure_beside_redis(run, 0, 64); }},
    {"door-hop-get", "GET by a door, one in flight / our client over TCP", "shown", Sense::kShown, 0, "x",
     [](BarRun& run) { return measure_hop(run, 1); }},
    {"door-hop-set", "SET by a door, one in flight / our client over TCP", "shown", Sense::kShown, 0, "x",
     [](BarRun& run) { return measure_hop(run, 0); }},
};

}  // namespace
}  // namespace refract::bench::bar_door_pipeline
