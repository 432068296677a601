// SPDX-License-Identifier: Apache-2.0
// What a log costs those who put: against the same node without one, and beside a Redis that appends to a
// file.
#include <fmt/core.h>

#include "bench/bars/bars.h"
#include "bench/sides/rivals.h"

#include "refract/base/units.h"

namespace refract::bench::bar_durable_puts {
namespace {

constexpr size_t kConnections = 50;
constexpr size_t kDepth = 16;

RivalsOptions rivals_options(const BarRun& run, bool over_tcp, const char* durability) {
  return {.node_program = run.options.node_program,
          .keys = run.options.entries,
          .over_tcp = over_tcp,
          .durability = durability};
}

WorkloadOptions puts(const BarRun& run, uint64_t turn) {
  return {.keys = run.options.entries, .get_share = 0, .seconds = run.options.log_seconds, .seed = turn + 1};
}

Reported<double> rate_of(StoreDriver& driver, const WorkloadOptions& options, const Timer& timer) {
  Workload workload(options, timer);
  const Reported<WorkloadResult> result = run_workload(driver, workload);
  if (!result) return report(result.error());
  return result->per_second();
}

// A node with everysec against one without a log, one client of each.
Reported<Outcome> measure_against_none(BarRun& run, bool over_tcp, size_t depth) {
  const Reported<Rivals> logged = Rivals::start(rivals_options(run, over_tcp, "everysec"));
  if (!logged) return report(logged.error());
  const Reported<Rivals> bare = Rivals::start(rivals_options(run, over_tcp, ""));
  if (!bare) return report(bare.error());
  pin_to_core(0);
  const DriverOptions options = {.depth = depth};
  const Reported<std::unique_ptr<StoreDriver>> ours = logged->connect(options);
  if (!ours) return report(ours.error());
  const Reported<std::unique_ptr<StoreDriver>> theirs = bare->connect(options);
  if (!theirs) return report(theirs.error());
  return in_turns(
      run,
      fmt::format("two nodes, {} in flight; client on core 0, both servers on 1, the log's thread on either",
                  depth),
      [&](uint64_t turn) {
        return ratio_of({.ours = {"everysec", rate_of(**ours, puts(run, turn), run.timer)},
                         .theirs = {"none", rate_of(**theirs, puts(run, turn), run.timer)},
                         .unit = "k/s",
                         .scale = 1e-3});
      },
      {.over = over_tcp ? Over::kTcp : Over::kSharedMemory});
}

Reported<Outcome> measure_everysec_put_beside_redis(BarRun& run) {
  RivalsOptions options = rivals_options(run, true, "everysec");
  options.with_redis = true;
  options.server_waiting = Waiting::kPolling;
  const Reported<Rivals> rivals = Rivals::start(options);
  if (!rivals) return report(rivals.error());
  pin_to_core(0);
  const DriverOptions driver = {.depth = kDepth, .waiting = Waiting::kPolling};
  const Reported<std::unique_ptr<StoreDriver>> ours = rivals->connect(driver);
  if (!ours) return report(ours.error());
  const Reported<std::unique_ptr<StoreDriver>> redis = rivals->connect_redis(driver);
  if (!redis) return report(redis.error());
  return in_turns(
      run,
      fmt::format("Redis {}, appendfsync everysec; one connection each, {} in flight, both clients poll; "
                  "clients on core 0, servers on 1",
                  rivals->redis().version(), kDepth),
      [&](uint64_t turn) {
        return ratio_of({.ours = {"ours", rate_of(**ours, puts(run, turn), run.timer)},
                         .theirs = {"Redis", rate_of(**redis, puts(run, turn), run.timer)},
                         .unit = "k/s",
                         .scale = 1e-3});
      },
      {.over = Over::kTcp});
}

Reported<Outcome> measure_always_put_beside_redis(BarRun& run) {
  RivalsOptions options = rivals_options(run, true, "always");
  options.keys = std::min<uint64_t>(options.keys, 100'000);  // Whose first puts are synced too.
  options.with_redis = true;
  options.is_bound = false;
  const Reported<Rivals> rivals = Rivals::start(options);
  if (!rivals) return report(rivals.error());
  const DriverOptions driver = {.depth = 1, .waiting = Waiting::kBlocking};
  const auto rate = [&](const DriverFactory& connect, uint64_t turn) -> Reported<double> {
    std::vector<WorkloadOptions> workloads;
    for (size_t k = 0; k < kConnections; ++k) {
      WorkloadOptions workload = puts(run, turn * kConnections + k);
      workload.keys = options.keys;
      workloads.push_back(workload);
    }
    const Reported<WorkloadResult> result = run_clients(workloads, run.timer, connect, {});
    if (!result) return report(result.error());
    return result->per_second();
  };
  return in_turns(
      run,
      fmt::format(
          "Redis {}, appendfsync always; {} clients that sleep for their answers, each with a thread and "
          "a connection, anywhere; log and file on the same file system ($TMPDIR)",
          rivals->redis().version(), kConnections),
      [&](uint64_t turn) {
        return ratio_of({.ours = {"ours", rate([&] { return rivals->connect(driver); }, turn)},
                         .theirs = {"Redis", rate([&] { return rivals->connect_redis(driver); }, turn)},
                         .unit = "k/s",
                         .scale = 1e-3});
      },
      {.over = Over::kTcp});
}

const BarRows kRows = {
    {"everysec-put-shm", "put on shm, one in flight, durability everysec / none", "at least 0.80",
     Sense::kAtLeast, 0.8, "x", [](BarRun& run) { return measure_against_none(run, false, 1); }},
    {"everysec-put-tcp", "the same on tcp, 16 in flight", "at least 0.80", Sense::kAtLeast, 0.8, "x",
     [](BarRun& run) { return measure_against_none(run, true, kDepth); }},
    {"everysec-put-redis", "put on tcp, 16 in flight, everysec / Redis with AOF everysec", "at least 3",
     Sense::kAtLeast, 3, "x", measure_everysec_put_beside_redis},
    {"always-put-redis", "put on tcp, 50 clients, always / Redis with AOF always", "at least 1.00",
     Sense::kAtLeast, 1, "x", measure_always_put_beside_redis},
};

}  // namespace
}  // namespace refract::bench::bar_durable_puts
