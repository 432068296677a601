// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "bench/bars/bars.h"
#include "bench/sides/rivals.h"

namespace refract::bench::bar_shards {
namespace {

constexpr size_t kClients = 2;
constexpr size_t kDepth = 16;

// Operations a second of both clients together, in millions.
Reported<double> rate_of(const BarRun& run, const Rivals& rivals, uint64_t turn) {
  std::vector<WorkloadOptions> workloads(kClients);
  for (size_t k = 0; k < kClients; ++k) {
    workloads[k].keys = run.options.entries;
    workloads[k].seconds = run.options.slice_seconds;
    workloads[k].seed = 2 * turn + k + 1;
  }
  const auto connect = [&rivals] { return rivals.connect({.depth = kDepth}); };
  const Reported<WorkloadResult> result = run_clients(workloads, run.timer, connect, {});
  if (!result) return report(result.error());
  return result->per_second() * 1e-6;
}

Reported<Outcome> measure_shards(BarRun& run) {
  RivalsOptions options{
      .node_program = run.options.node_program, .keys = run.options.entries, .is_bound = false};
  const Reported<Rivals> one = Rivals::start(options);
  if (!one) return report(one.error());
  options.shards = 2;
  const Reported<Rivals> two = Rivals::start(options);
  if (!two) return report(two.error());

  Reported<Outcome> outcome = in_turns(
      run,
      fmt::format("gets over TCP, {} clients with {} in flight each, no thread bound to a core, all adaptive",
                  kClients, kDepth),
      [&](uint64_t turn) -> Reported<Turn> {
        const Reported<double> with_one = rate_of(run, *one, turn);
        if (!with_one) return report(with_one.error());
        const Reported<double> with_two = rate_of(run, *two, turn);
        if (!with_two) return report(with_two.error());
        const double ratio = *with_two / *with_one;
        return Turn{
            ratio,
            {{"one shard", *with_one, "M/s"}, {"two shards", *with_two, "M/s"}, {"two to one", ratio, "x"}}};
      },
      {.over = Over::kTcp});
  if (!outcome || core_count() >= kClients + 2) return outcome;
  outcome->samples.clear();
  outcome->note += fmt::format(
      "; {} clients and 2 shards need {} cores, and there are {}: what is measured here is the processor "
      "time of an operation, which a second shard does not lower",
      kClients, kClients + 2, core_count());
  return outcome;
}

const BarRows kRows = {
    {"shards", "two shards / one, two clients on tcp", "at least 1.30", Sense::kAtLeast, 1.3, "x",
     measure_shards},
};

}  // namespace
}  // namespace refract::bench::bar_shards
