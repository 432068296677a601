// SPDX-License-Identifier: Apache-2.0
// What more shards bring, beyond the cores of this machine: on the simulated network, with what a call costs
// a core here.
#include <fmt/core.h>

#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "bench/growth/growth.h"
#include "bench/growth/simulated_shards.h"
#include "bench/sides/rivals.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

constexpr uint64_t kKeys = 100'000;
constexpr size_t kDepth = 16;
constexpr uint32_t kCallers = 256;
constexpr uint32_t kCallersAShard = 16;
constexpr const char* kIdeal = "cores that never wait";
constexpr const char* kCost = "server's time";

// What a call takes of the server's processor here, and how long a message is on its way.
struct Costs {
  double get_ns = 0;
  double put_ns = 0;
  double one_way_ns = 0;
  bool is_disturbed = false;
  std::vector<Block> blocks;
};

Reported<Costs> measure_costs(const GrowthRun& run) {
  // Who sleeps at once takes no time to look for requests, and its waking is part of the work.
  const Reported<Rivals> rivals = Rivals::start(
      {.node_program = run.bars.options.node_program, .keys = kKeys, .server_waiting = Waiting::kBlocking});
  if (!rivals) return report(rivals.error());
  pin_to_core(0);
  const Reported<std::unique_ptr<StoreDriver>> driver =
      rivals->connect({.depth = kDepth, .waiting = Waiting::kPolling});
  if (!driver) return report(driver.error());
  const pid_t server = rivals->node().server();
  GrowthPoint point;
  const Reported<> done = measure_turns(
      run, point,
      [&](GrowthPoint& figures, uint64_t number) -> Reported<> {
        for (const bool is_get : {true, false}) {
          Workload workload({.keys = kKeys,
                             .get_share = is_get ? 1.0 : 0.0,
                             .seconds = run.bars.options.slice_seconds,
                             .seed = number + 1},
                            run.bars.timer);
          const uint64_t before_ns = test::use_of(server).cpu_ns;
          const Reported<WorkloadResult> result = run_workload(**driver, workload);
          if (!result) return report(result.error());
          const auto used_ns = static_cast<double>(test::use_of(server).cpu_ns - before_ns);
          figures.add({kCost, is_get ? "get" : "put", "ns", "", {}},
                      used_ns / static_cast<double>(std::max<uint64_t>(result->operations, 1)));
        }
        return {};
      },
      Over::kTcp);
  if (!done) return report(done.error());
  return Costs{.get_ns = spread_of(point.find(kCost, "get")->samples).median,
               .put_ns = spread_of(point.find(kCost, "put")->samples).median,
               .one_way_ns = point.blocks.back().before.tcp_polling_ns / 2,
               .is_disturbed = point.is_disturbed,
               .blocks = std::move(point.blocks)};
}

struct Crowd {
  const char* name;
  uint32_t callers;
};

Reported<> turn_of(const GrowthRun& run, SimulatedShards& node, GrowthPoint& point, const Crowd& crowd,
                   const Costs& costs, uint64_t seed) {
  for (const bool is_get : {true, false}) {
    const Reported<SimulatedTurn> turn = node.run(
        {.is_get = is_get, .callers = crowd.callers, .duration_ns = run.options.simulated_ns, .seed = seed});
    if (!turn) return report(turn.error());
    const std::string rate = is_get ? "gets a second" : "puts a second";
    const double core_ns = is_get ? costs.get_ns : costs.put_ns;
    point.add({rate, crowd.name, "/s", kIdeal, {}}, turn->per_second);
    // Once a turn, whatever the callers.
    const GrowthFigure* ideal = point.find(rate, kIdeal);
    if (ideal == nullptr || ideal->samples.size() < seed) {
      point.add({rate, kIdeal, "/s", "", {}}, point.x * 1e9 / core_ns);
    }
    const std::string call = is_get ? "get" : "put";
    point.add({call, crowd.name, "ns", "", {}}, static_cast<double>(turn->latency_ns.quantile(0.5)));
    point.add({call + ", 99th percentile", crowd.name, "ns", "", {}},
              static_cast<double>(turn->latency_ns.quantile(0.99)));
    if (!is_get) continue;
    point.add({"cores at work", fmt::format("{}, mean", crowd.name), "%", "", {}}, 100 * turn->busy_mean);
    point.add({"cores at work", fmt::format("{}, busiest", crowd.name), "%", "", {}}, 100 * turn->busy_most);
  }
  return {};
}

Reported<GrowthPoint> measure_point(const GrowthRun& run, const Costs& costs, uint64_t shards) {
  GrowthPoint point = {
      .x = static_cast<double>(shards), .blocks = costs.blocks, .is_disturbed = costs.is_disturbed};
  const auto count = static_cast<uint32_t>(shards);
  const Reported<std::unique_ptr<SimulatedShards>> node =
      SimulatedShards::start({.shards = count,
                              .get_core_ns = static_cast<uint64_t>(std::llround(costs.get_ns)),
                              .put_core_ns = static_cast<uint64_t>(std::llround(costs.put_ns)),
                              .one_way_ns = static_cast<uint64_t>(std::llround(costs.one_way_ns))});
  if (!node) return report(node.error());
  const std::array crowds = {Crowd{"16 callers a shard", kCallersAShard * count},
                             Crowd{"256 callers in all", kCallers}};
  for (int turn = 1; turn <= run.bars.options.alternations; ++turn) {
    for (const Crowd& crowd : crowds) {
      const Reported<> done = turn_of(run, **node, point, crowd, costs, static_cast<uint64_t>(turn));
      if (!done) return report(done.error());
    }
  }
  return point;
}

}  // namespace

Reported<GrowthCurve> measure_growth_by_shards(const GrowthRun& run) {
  GrowthCurve curve = {.axis = GrowthAxis::kShards, .title = "Shards: simulated, a core each"};
  const Reported<Costs> costs = measure_costs(run);
  if (!costs) return report(costs.error());
  curve.how = fmt::format(
      "Simulated: the store's own code in virtual time, a host with one core for each shard, callers with "
      "one operation each under way, uniform keys; turns differ in their seed. Two things are measured "
      "here and given to it: what a call takes of the server's processor over TCP, {} in flight, the "
      "server asleep whenever it has nothing to do (a get {:.0f} ns, a put {:.0f} ns), and the way between "
      "two hosts (half of a round trip of 64 B over TCP, {:.0f} ns). Bandwidth, caches and memory are not "
      "in it. The reference is so many cores that never wait for a call.",
      kDepth, costs->get_ns, costs->put_ns, costs->one_way_ns);
  if (costs->one_way_ns == 0) {
    curve.gaps.emplace_back("the way between two hosts needs two cores to be measured, and counts as none");
  }
  for (const uint64_t shards : run.chosen(times(1, run.options.shards_max, 2))) {
    Reported<GrowthPoint> point = measure_point(run, *costs, shards);
    if (!point) return report(point.error());
    if (run.options.on_point) run.options.on_point(curve.axis, *point);
    curve.points.push_back(std::move(*point));
  }
  return curve;
}

}  // namespace refract::bench
