// SPDX-License-Identifier: Apache-2.0
// One connection to a door, beside one to Redis, and beside a client of the node itself.
#include <fmt/core.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "bench/bars/bars.h"
#include "bench/bars/doors/door_beside_redis.h"
#include "bench/load/redis_driver.h"
#include "bench/load/refract_driver.h"

namespace refract::bench::bar_door_pipeline {
namespace {

// Two clients of one server, of which one polls and the other sleeps when it waits, as Redis's clients do.
struct Clients {
  std::string server;
  std::unique_ptr<StoreDriver> polling;
  std::unique_ptr<StoreDriver> sleeping;
};
using Connect = std::function<Reported<std::unique_ptr<StoreDriver>>(const DriverOptions& options)>;

Reported<Clients> clients_of(const std::string& server, size_t depth, const Connect& connect) {
  Reported<std::unique_ptr<StoreDriver>> polling = connect({.depth = depth, .waiting = Waiting::kPolling});
  if (!polling) return report(polling.error());
  Reported<std::unique_ptr<StoreDriver>> sleeping = connect({.depth = depth, .waiting = Waiting::kBlocking});
  if (!sleeping) return report(sleeping.error());
  return Clients{server, std::move(*polling), std::move(*sleeping)};
}

Reported<Clients> clients_at(const std::string& server, uint16_t port, size_t depth,
                             const DoorBesideRedis& sides) {
  return clients_of(server, depth, [&](const DriverOptions& options) {
    return RedisDriver::connect(port, options, sides.contents());
  });
}

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

// The limit is about clients that poll, whose numbers can be had again; how long it takes to wake a core
// decides about the others, which are details.
Reported<Outcome> compare(BarRun& run, double get_share, const Reported<Clients>& ours,
                          const Reported<Clients>& theirs, const std::string& note) {
  if (!ours) return report(ours.error());
  if (!theirs) return report(theirs.error());
  const auto ratio = [&](StoreDriver& own, StoreDriver& other, const char* how, uint64_t turn) {
    return ratio_of({.ours = {ours->server + how, rate_of(run, own, get_share, turn + 1)},
                     .theirs = {theirs->server + how, rate_of(run, other, get_share, turn + 1)},
                     .unit = "k/s",
                     .scale = 1e-3});
  };
  return in_turns(
      run, note + "; the client polls, on core 0, or sleeps when it waits; no server is bound to a core",
      [&](uint64_t turn) -> Reported<Turn> {
        Reported<Turn> polling = ratio(*ours->polling, *theirs->polling, "", turn);
        if (!polling) return polling;
        const Reported<Turn> sleeping = ratio(*ours->sleeping, *theirs->sleeping, " asleep", turn);
        if (!sleeping) return sleeping;
        polling->details.insert(polling->details.end(), sleeping->details.begin(), sleeping->details.end());
        polling->details.push_back({"ratio of these", sleeping->sample, "x"});
        return polling;
      },
      {.over = Over::kTcp});
}

Reported<Outcome> measure_beside_redis(BarRun& run, double get_share, size_t depth) {
  Reported<DoorBesideRedis> sides =
      DoorBesideRedis::start(run, {.keys = run.options.entries, .held = Held::kContents});
  if (!sides) return report(sides.error());
  return compare(run, get_share, clients_at("door", sides->door_port(), depth, *sides),
                 clients_at(sides->redis_name(), sides->redis_port(), depth, *sides),
                 fmt::format("one connection each, a sliding window of {}", depth));
}

Reported<Outcome> measure_hop(BarRun& run, double get_share) {
  Reported<DoorBesideRedis> sides = DoorBesideRedis::start(
      run, {.keys = run.options.entries, .held = Held::kContents, .has_redis = false, .listens = true});
  if (!sides) return report(sides.error());
  const auto connect = [&](const DriverOptions& options) -> Reported<std::unique_ptr<StoreDriver>> {
    return RefractDriver::connect({.address = sides->node().tcp_address()}, options, sides->contents());
  };
  return compare(run, get_share, clients_at("door", sides->door_port(), 1, *sides),
                 clients_of("AsyncClient", 1, connect), "one connection each over TCP, one in flight");
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
