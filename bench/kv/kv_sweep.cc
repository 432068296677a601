// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/kv_sweep.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "bench/kv/kv_sides.h"
#include "bench/kv/kv_turns.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

// Of all values together, where their size is gone over: several stores hold them at once.
constexpr uint64_t kValueBytesMax = 256 * kMiB;
constexpr uint64_t kKeysMin = 16;

// Whether a point needs servers of its own.
bool has_own_stores(Sweep sweep) noexcept {
  return sweep == Sweep::kShards || sweep == Sweep::kSize;
}

Reported<KvSweepPoint> measure_point(KvTurns& turns, const KvLoad& load, uint64_t value) {
  Reported<KvResult> result = turns.measure(load);
  if (!result) {
    return report(result.error().code, fmt::format("{} {}: {}", text(load.sweep), value, result.error().what),
                  result.error().next);
  }
  KvSweepPoint point{.at = value, .keys = load.workload.keys, .result = std::move(*result)};
  point.drift = drift_of(load, point.result.before, point.result.after);
  return point;
}

}  // namespace

std::vector<uint64_t> values_of(Sweep sweep) {
  switch (sweep) {
    case Sweep::kDepth:
      return times(1, 256, 2);
    case Sweep::kClients:
      return times(1, 16, 2);
    case Sweep::kShards:
      return times(1, 8, 2);
    case Sweep::kSize:
      return times(16, 4 * kMiB, 4);
    case Sweep::kNone:
    case Sweep::kRate:
      break;
  }
  return {};
}

KvLoad load_at(const KvLoad& load, uint64_t value) {
  KvLoad there = load;
  switch (load.sweep) {
    case Sweep::kDepth:
      there.driver.depth = value;
      break;
    case Sweep::kClients:
      there.clients = value;
      break;
    case Sweep::kShards:
      there.shards = value;
      break;
    case Sweep::kSize:
      there.workload.value_bytes = value;
      there.workload.keys = std::min(load.workload.keys, std::max(kKeysMin, kValueBytesMax / value));
      break;
    case Sweep::kNone:
    case Sweep::kRate:
      break;
  }
  return there;
}

Reported<> check_sweep(const KvLoad& load) {
  if (has_own_stores(load.sweep) && !load.address.empty()) {
    return report(
        Code::kInvalidArgument,
        fmt::format("--sweep {} starts a node for each point, and --address names one", text(load.sweep)),
        "leave --address out");
  }
  for (const uint64_t value : values_of(load.sweep)) {
    const Reported<> possible = check(load_at(load, value));
    if (possible) continue;
    return report(possible.error().code,
                  fmt::format("--sweep {}, at {}: {}", text(load.sweep), value, possible.error().what),
                  possible.error().next);
  }
  return {};
}

Reported<KvSweep> run_kv_sweep(const KvLoad& load) {
  const Timer timer = Timer::calibrate();
  // Forks, so it comes before everything that grows or starts threads.
  const Reported<std::unique_ptr<References>> references = References::start(timer);
  if (!references) return report(references.error());
  const std::vector<uint64_t> values = values_of(load.sweep);
  const KvLoad most = load_at(load, values.back());
  KvSweep sweep{.over = load.sweep,
                .is_bound = load.address.empty() && core_count() >= most.clients + most.shards,
                .points = {}};
  const auto run_on = [&](const KvStores& stores) {
    return KvRun{.timer = timer, .references = **references, .stores = stores, .is_bound = sweep.is_bound};
  };
  if (!has_own_stores(load.sweep)) {
    const Reported<std::unique_ptr<KvStores>> stores = KvStores::start(most, sweep.is_bound);
    if (!stores) return report(stores.error());
    KvTurns turns(run_on(**stores), most);
    for (const uint64_t value : values) {
      Reported<KvSweepPoint> point = measure_point(turns, load_at(load, value), value);
      if (!point) return report(point.error());
      sweep.points.push_back(std::move(*point));
    }
    return sweep;
  }
  for (const uint64_t value : values) {
    const KvLoad there = load_at(load, value);
    const Reported<std::unique_ptr<KvStores>> stores = KvStores::start(there, sweep.is_bound);
    if (!stores) return report(stores.error());
    KvTurns turns(run_on(**stores), there);
    Reported<KvSweepPoint> point = measure_point(turns, there, value);
    if (!point) return report(point.error());
    sweep.points.push_back(std::move(*point));
  }
  return sweep;
}

}  // namespace refract::bench
