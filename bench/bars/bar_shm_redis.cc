// SPDX-License-Identifier: Apache-2.0
// What a program gains that asks a node by shared memory where it asked Redis on localhost before.
#include <fmt/core.h>

#include <memory>
#include <utility>

#include "bench/bars/bars.h"
#include "bench/bars/loaded_node.h"
#include "bench/load/entry.h"
#include "bench/load/redis_driver.h"
#include "bench/sides/rivals.h"

namespace refract::bench::bar_shm_redis {
namespace {

Reported<double> redis_rate(const BarRun& run, StoreDriver& driver, uint64_t seed) {
  Workload workload({.keys = run.options.entries, .seconds = run.options.slice_seconds, .seed = seed},
                    run.timer);
  const Reported<WorkloadResult> result = run_workload(driver, workload);
  if (!result) return report(result.error());
  if (result->missing > 0) return report(Code::kCorrupt, "a get found nothing where an entry was put");
  return result->per_second() * 1e-6;
}

struct RedisSide {
  Redis redis;
  std::unique_ptr<StoreDriver> client;
};

Reported<RedisSide> start_redis(const BarRun& run, size_t depth) {
  const int cpu = core_count() > 1 ? core_number(1) : -1;
  Reported<Redis> redis = Redis::start({.over_tcp = true, .cpu = cpu, .append_fsync = {}});
  if (!redis) return report(redis.error());
  const Contents contents(sizeof(Key), sizeof(Value));
  if (const Reported<> filled = fill_redis(*redis, contents, run.options.entries); !filled) {
    return report(filled.error());
  }
  Reported<std::unique_ptr<RedisDriver>> client =
      RedisDriver::connect(redis->port(), {.depth = depth, .waiting = Waiting::kPolling}, contents);
  if (!client) return report(client.error());
  return RedisSide{.redis = std::move(*redis), .client = std::move(*client)};
}

// Ours always one after the other; Redis with so many under way.
Reported<Outcome> measure_gets(BarRun& run, size_t redis_depth) {
  Reported<LoadedNode> loaded = start_loaded_node(run, run.options.entries);
  if (!loaded) return report(loaded.error());
  pin_to_core(0);
  const Reported<RedisSide> redis = start_redis(run, redis_depth);
  if (!redis) return report(redis.error());

  return in_turns(
      run,
      fmt::format(
          "{} entries, uniform; ours on shm by refract::Client, one after the other; Redis {} over TCP on "
          "loopback, {} in flight on one connection; clients on core 0, servers on 1; Redis sleeps when "
          "idle",
          run.options.entries, redis->redis.version(), redis_depth),
      [&](uint64_t turn) {
        return ratio_of({.ours = {"ours", get_rate(loaded->client, run.options.entries,
                                                   run.options.operations, turn + 1)},
                         .theirs = {"Redis", redis_rate(run, *redis->client, turn + 1)},
                         .unit = "M/s"});
      },
      {.over = Over::kTcp});
}

const BarRows kRows = {
    {"shm-get-redis", "gets on shm, one in flight / Redis, one in flight", "at least 20", Sense::kAtLeast, 20,
     "x", [](BarRun& run) { return measure_gets(run, 1); }},
    {"shm-get-redis-64", "gets on shm, one in flight / Redis, 64 in flight", "at least 5", Sense::kAtLeast, 5,
     "x", [](BarRun& run) { return measure_gets(run, 64); }},
};

}  // namespace
}  // namespace refract::bench::bar_shm_redis
