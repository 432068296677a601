// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/kv_turns.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace refract::bench {
namespace {

constexpr std::array kSweepShares = {0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5};

// Servers have core 1 and those behind it.
std::vector<size_t> cores_of(const KvLoad& load, bool is_bound) {
  std::vector<size_t> cores;
  for (size_t k = 0; is_bound && k < load.clients; ++k) cores.push_back(k == 0 ? 0 : load.shards + k);
  return cores;
}

}  // namespace

KvTurns::KvTurns(const KvRun& run, const KvLoad& most) : run_(run) {
  const uint64_t room = std::max<uint64_t>(1, most.workload.keys / most.clients);
  for (const KvStores::Side& store : run.stores.sides()) {
    Side& side = sides_.emplace_back();
    side.store = &store;
    for (uint64_t client = 0; client < most.clients; ++client) {
      side.inserted.emplace_back(
          InsertedKeys::Place{.keys = most.workload.keys, .client = client, .room = room});
    }
  }
}

Reported<KvResult> KvTurns::measure(const KvLoad& load) {
  for (Side& side : sides_) {
    side.found = {};
    side.found.name = side.store->name;
    side.found.how = side.store->how;
    side.found.served_by = side.store->served_by;
  }
  KvResult result;
  result.is_bound = run_.is_bound;
  result.base = run_.stores.base();
  result.before = run_.references.measure();
  for (int turn = 0; turn < load.turns; ++turn) {
    for (Side& side : sides_) {
      if (const Reported<> done = take_turn(load, side, static_cast<uint64_t>(turn)); !done) {
        return report(done.error());
      }
    }
  }
  if (load.sweep == Sweep::kRate) {
    if (const Reported<> done = sweep_rates(load); !done) return report(done.error());
  }
  result.after = run_.references.measure();
  for (Side& side : sides_) result.sides.push_back(std::move(side.found));
  return result;
}

Reported<> KvTurns::take_turn(const KvLoad& load, Side& side, uint64_t seed) {
  const auto& server_cpu_ns = side.store->server_cpu_ns;
  const uint64_t cpu_before_ns = server_cpu_ns ? server_cpu_ns() : 0;
  std::optional<Counters> counters;
  if (side.store->server_pid) counters.emplace(Counters::of_process(side.store->server_pid()));
  const Reported<WorkloadResult> result = run(load, side, load.workload.rate, seed);
  if (!result) return report(result.error());
  if (server_cpu_ns) {
    const uint64_t cpu_now_ns = std::max(server_cpu_ns(), cpu_before_ns);
    side.found.server_cpu_ns = side.found.server_cpu_ns.value_or(0) + cpu_now_ns - cpu_before_ns;
  }
  if (counters) side.found.server_counts += counters->during(result->operations);
  side.found.rates.push_back(result->per_second());
  side.found.sum.add_after(*result);
  return {};
}

Reported<> KvTurns::sweep_rates(const KvLoad& load) {
  for (const double share : kSweepShares) {
    const Reference before = run_.references.measure();
    for (Side& side : sides_) {
      const double offered = spread_of(side.found.rates).median * share;
      const Reported<WorkloadResult> result = run(load, side, offered, 1);
      if (!result) return report(result.error());
      side.found.sweep.push_back({.share = share, .offered = offered, .result = *result});
    }
    const double apart = drift_of(load, before, run_.references.measure());
    for (Side& side : sides_) side.found.sweep.back().drift = apart;
  }
  return {};
}

Reported<WorkloadResult> KvTurns::run(const KvLoad& load, Side& side, double rate, uint64_t seed) {
  DriverOptions driver = load.driver;
  driver.has_rate = rate > 0;
  driver.has_scans = load.workload.scan_share > 0;
  std::vector<WorkloadOptions> workloads(load.clients, load.workload);
  for (size_t k = 0; k < workloads.size(); ++k) {
    workloads[k].rate = rate / static_cast<double>(load.clients);
    workloads[k].inserted = &side.inserted[k];
    workloads[k].seed = seed * load.clients + k + 1;
    if (load.workload.operations > 0) {
      workloads[k].operations = (load.workload.operations + load.clients - 1) / load.clients;
    }
  }
  Reported<WorkloadResult> result = run_clients(
      workloads, run_.timer, [&] { return side.store->connect(driver); }, cores_of(load, run_.is_bound));
  if (result) return result;
  return report(result.error().code, fmt::format("{}: {}", side.store->name, result.error().what),
                result.error().next);
}

}  // namespace refract::bench
