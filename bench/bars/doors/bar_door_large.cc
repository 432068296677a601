// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <memory>
#include <vector>

#include "bench/bars/bars.h"
#include "bench/bars/doors/door_beside_redis.h"
#include "bench/load/redis_driver.h"

#include "refract/base/units.h"

namespace refract::bench::bar_door_large {
namespace {

constexpr uint64_t kValues = 16;
// Replaced values are free again one round of reclamation later.
constexpr uint64_t kRoomForValues = 8 * kValues;

struct Contest {
  size_t value_bytes = kMiB;
  size_t clients = 1;
  double get_share = 1;
};

// Values a second of all clients together, each on a connection and a thread of its own.
Reported<double> rate_of(const BarRun& run, const Contest& contest, uint16_t port, const Contents& contents,
                         uint64_t turn) {
  std::vector<WorkloadOptions> workloads(contest.clients);
  for (size_t i = 0; i < workloads.size(); ++i) {
    workloads[i] = {.keys = kValues,
                    .value_bytes = contest.value_bytes,
                    .get_share = contest.get_share,
                    .seconds = run.options.slice_seconds,
                    .seed = turn * contest.clients + i + 1};
  }
  const auto connect = [&]() -> Reported<std::unique_ptr<StoreDriver>> {
    return RedisDriver::connect(port, {.waiting = Waiting::kBlocking}, contents);
  };
  const Reported<WorkloadResult> result = run_clients(workloads, run.timer, connect, {});
  if (!result) return report(result.error());
  if (result->missing > 0) return report(Code::kCorrupt, "a get found nothing where an entry was put");
  return result->per_second();
}

Reported<Outcome> measure(BarRun& run, const Contest& contest) {
  Reported<DoorBesideRedis> sides = DoorBesideRedis::start(run, {.keys = kValues,
                                                                 .keys_max = kRoomForValues,
                                                                 .value_bytes = contest.value_bytes,
                                                                 .held = Held::kContents});
  if (!sides) return report(sides.error());
  return in_turns(
      run,
      fmt::format("{} values; {} connection{}, one in flight on each; threads of clients sleep when they "
                  "wait; nothing is bound to a core",
                  kValues, contest.clients, contest.clients == 1 ? "" : "s"),
      [&](uint64_t turn) {
        return ratio_of({.ours = {"door", rate_of(run, contest, sides->door_port(), sides->contents(), turn)},
                         .theirs = {sides->redis_name(),
                                    rate_of(run, contest, sides->redis_port(), sides->contents(), turn)},
                         .unit = "GB/s",
                         .scale = static_cast<double>(contest.value_bytes) * 1e-9});
      },
      {.over = Over::kTcp});
}

const BarRows kRows = {
    {"door-get-1m", "GET of 1 MiB, 4 clients, door / Redis", "at least 1.15", Sense::kAtLeast, 1.15, "x",
     [](BarRun& run) { return measure(run, {.clients = 4}); }},
    {"door-set-1m", "SET of 1 MiB, 4 clients, door / Redis", "at least 0.90", Sense::kAtLeast, 0.9, "x",
     [](BarRun& run) { return measure(run, {.clients = 4, .get_share = 0}); }},
    {"door-get-4m", "GET of 4 MiB, one client, door / Redis", "at least 1.0", Sense::kAtLeast, 1, "x",
     [](BarRun& run) { return measure(run, {.value_bytes = 4 * kMiB}); }},
    {"door-set-4m", "SET of 4 MiB, one client, door / Redis", "at least 0.90", Sense::kAtLeast, 0.9, "x",
     [](BarRun& run) { return measure(run, {.value_bytes = 4 * kMiB, .get_share = 0}); }},
};

}  // namespace
}  // namespace refract::bench::bar_door_large
