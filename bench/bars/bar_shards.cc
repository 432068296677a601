// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <array>
#include <span>

#include "bench/bars/bars.h"
#include "bench/sides/rivals.h"

namespace refract::bench {
namespace {

constexpr size_t kClients = 2;
constexpr size_t kDepth = 16;

// Operations a second of both clients together, in millions.
Reported<double> rate_of(const BarRun& run, const Rivals& rivals, int turn) {
  std::vector<WorkloadOptions> workloads(kClients);
  for (size_t k = 0; k < kClients; ++k) {
    workloads[k].keys = run.options.entries;
    workloads[k].seconds = run.options.slice_seconds;
    workloads[k].seed = 2 * static_cast<uint64_t>(turn) + k + 1;
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

  return in_block(
      run,
      [&](Outcome& block) -> Reported<> {
        std::vector<double> ratios;
        std::vector<double> one_rates;
        std::vector<double> two_rates;
        for (int turn = 0; turn <= run.options.alternations; ++turn) {
          const Reported<double> with_one = rate_of(run, *one, turn);
          if (!with_one) return report(with_one.error());
          const Reported<double> with_two = rate_of(run, *two, turn);
          if (!with_two) return report(with_two.error());
          if (turn == 0) continue;
          one_rates.push_back(*with_one);
          two_rates.push_back(*with_two);
          ratios.push_back(*with_two / *with_one);
        }
        block.details = {{"one shard", spread_of(one_rates).median, "M/s"},
                         {"two shards", spread_of(two_rates).median, "M/s"},
                         {"two to one", spread_of(ratios).median, "x"}};
        block.note = fmt::format(
            "gets over TCP, {} clients with {} in flight each, no thread bound to a core, all adaptive",
            kClients, kDepth);
        if (core_count() >= kClients + 2) {
          block.samples = ratios;
          return {};
        }
        block.note += fmt::format(
            "; {} clients and 2 shards need {} cores, and there are {}: what is measured here is the "
            "processor "
            "time of an operation, which a second shard does not lower",
            kClients, kClients + 2, core_count());
        return {};
      },
      Over::kTcp);
}

constexpr std::array kBars = {
    Bar{"shards", "two shards / one, two clients on tcp", "at least 1.30", Sense::kAtLeast, 1.3, "x",
        measure_shards},
};

}  // namespace

std::span<const Bar> bars_of_shards() noexcept {
  return kBars;
}

}  // namespace refract::bench
