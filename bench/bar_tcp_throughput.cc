// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "bench/bars.h"
#include "bench/rivals.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

struct Contest {
  uint64_t keys = 0;
  size_t value_bytes = 64;
  double get_share = 1;
  size_t depth = 1;
};

struct Rates {
  double ours = 0;
  double redis = 0;
};

// One turn of each, over the same keys in the same order.
Reported<Rates> compete(StoreDriver& ours, StoreDriver& redis, const WorkloadOptions& options,
                        const Timer& timer) {
  Workload workload(options, timer);
  const Reported<WorkloadResult> our_result = run_workload(ours, workload);
  if (!our_result) return report(our_result.error());
  Workload same_again(options, timer);
  const Reported<WorkloadResult> redis_result = run_workload(redis, same_again);
  if (!redis_result) return report(redis_result.error());
  if (our_result->missing + redis_result->missing > 0) {
    return report(Code::kCorrupt, "a get found nothing where an entry was put");
  }
  return Rates{.ours = our_result->per_second(), .redis = redis_result->per_second()};
}

Reported<Outcome> measure_contest(BarRun& run, const Contest& contest) {
  const Reported<Rivals> rivals = Rivals::start({.node_program = run.options.node_program,
                                                 .keys = contest.keys,
                                                 .value_bytes = contest.value_bytes,
                                                 .with_redis = true,
                                                 .server_waiting = Waiting::kPolling});
  if (!rivals) return report(rivals.error());
  pin_to_core(0);
  const DriverOptions options = {.depth = contest.depth, .waiting = Waiting::kPolling};
  const Reported<std::unique_ptr<StoreDriver>> ours = rivals->connect(options);
  if (!ours) return report(ours.error());
  const Reported<std::unique_ptr<StoreDriver>> redis = rivals->connect_redis(options);
  if (!redis) return report(redis.error());

  return in_block(
      run,
      [&](Outcome& block) -> Reported<> {
        const bool is_large = contest.value_bytes >= kMiB;
        // In GB/s, or in millions a second.
        const double scale = is_large ? static_cast<double>(contest.value_bytes) * 1e-9 : 1e-6;
        std::vector<double> our_rates;
        std::vector<double> redis_rates;
        for (int turn = 0; turn <= run.options.alternations; ++turn) {
          const Reported<Rates> rates = compete(**ours, **redis,
                                                {.keys = contest.keys,
                                                 .value_bytes = contest.value_bytes,
                                                 .get_share = contest.get_share,
                                                 .seconds = run.options.slice_seconds,
                                                 .seed = static_cast<uint64_t>(turn) + 1},
                                                run.timer);
          if (!rates) return report(rates.error());
          if (turn == 0) continue;
          our_rates.push_back(rates->ours * scale);
          redis_rates.push_back(rates->redis * scale);
          block.samples.push_back(rates->ours / rates->redis);
        }
        const char* unit = is_large ? "GB/s" : "M/s";
        block.details = {{"ours", spread_of(our_rates).median, unit},
                         {"Redis", spread_of(redis_rates).median, unit}};
        block.note = fmt::format(
            "Redis {}; one connection each, a sliding window of {} (client::AsyncClient; pipelined "
            "commands); "
            "both clients poll, our server polls, Redis sleeps in epoll when idle; clients on core 0, "
            "servers on 1",
            rivals->redis().version(), contest.depth);
        return {};
      },
      Over::kTcp);
}

Reported<Outcome> measure_small(BarRun& run, double get_share, size_t depth) {
  return measure_contest(run, {.keys = run.options.entries, .get_share = get_share, .depth = depth});
}

// Sixteen values that are walked in random order, every page of them touched before.
Reported<Outcome> measure_large(BarRun& run, double get_share) {
  return measure_contest(run, {.keys = 16, .value_bytes = 4 * kMiB, .get_share = get_share, .depth = 1});
}

}  // namespace

Reported<Outcome> measure_tcp_get_16(BarRun& run) {
  return measure_small(run, 1, 16);
}

Reported<Outcome> measure_tcp_get_64(BarRun& run) {
  return measure_small(run, 1, 64);
}

Reported<Outcome> measure_tcp_put_16(BarRun& run) {
  return measure_small(run, 0, 16);
}

Reported<Outcome> measure_tcp_put_64(BarRun& run) {
  return measure_small(run, 0, 64);
}

Reported<Outcome> measure_tcp_get_large(BarRun& run) {
  return measure_large(run, 1);
}

Reported<Outcome> measure_tcp_put_large(BarRun& run) {
  return measure_large(run, 0);
}

}  // namespace refract::bench
