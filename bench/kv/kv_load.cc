// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/kv_load.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <memory>

#include "bench/kv/design_driver.h"
#include "bench/kv/kv_sides.h"
#include "bench/kv/kv_turns.h"
#include "bench/sides/memcached.h"

namespace refract::bench {
namespace {

std::unexpected<Report> refuse(std::string what, std::string next) {
  return report(Code::kInvalidArgument, std::move(what), std::move(next));
}

// What a load of YCSB asks for beyond gets and puts.
Reported<> check_for_ycsb(const KvLoad& load) {
  if (load.ycsb == nullptr || load.ycsb->is_plain()) return {};
  const std::string name = fmt::format("--workload {}", load.ycsb->letter);
  for (const std::string& design : load.designs) {
    if (design != kOurs) {
      return refuse(fmt::format("{}: {} is filled with the keys of the load, and has gets and puts alone",
                                name, design),
                    "choose a, b or c, or leave --design out");
    }
  }
  const bool has_steps = load.ycsb->scans + load.ycsb->replaces > 0;
  if (has_steps && load.driver.batch > 1) {
    return refuse(fmt::format("{}: its operations have several steps, and do not go in batches", name),
                  "leave --batch at 1");
  }
  if (load.ycsb->scans == 0) return {};
  for (const KvPeer peer : load.beside) {
    if (peer != KvPeer::kRedis) {
      return refuse(fmt::format("{}: {} cannot be scanned while others use it", name, text(peer)),
                    "leave it out, or choose another workload");
    }
  }
  return {};
}

// What a store of others cannot do.
Reported<> check_for_peers(const KvLoad& load) {
  if (load.is_beside(KvPeer::kMemcached) && load.workload.key_bytes > kMemcachedKeyBytesMax) {
    return refuse(fmt::format("memcached takes keys of up to {} bytes", kMemcachedKeyBytesMax),
                  "lower --key-bytes");
  }
  if (load.is_beside(KvPeer::kTable) && load.clients > 1) {
    return refuse(fmt::format("--beside table is for one thread, and not for {} clients", load.clients),
                  "leave --clients at 1, or put the load beside cuckoo");
  }
  return {};
}

// What a store of a published design cannot do; `name` is the first of them.
Reported<> check_for_designs(const KvLoad& load, const std::string& name) {
  if (!load.address.empty()) {
    return refuse(fmt::format("--address names a node of ours, which does not serve {}", name),
                  "leave it out: a server is started for each design");
  }
  if (load.driver.batch > 1) {
    return refuse(fmt::format("{} has no multi_get and multi_put", name), "leave --batch at 1");
  }
  if (load.shards > 1) {
    return refuse(
        fmt::format("{} is served by one thread, and would stand beside {} of ours", name, load.shards),
        "leave --shards at 1");
  }
  if (load.workload.key_bytes + load.workload.value_bytes > kDesignItemBytesMax) {
    return refuse(fmt::format("{} takes keys and values of {} bytes together", name, kDesignItemBytesMax),
                  "lower --value-bytes");
  }
  return {};
}

}  // namespace

std::string_view text(Provider provider) noexcept {
  return provider == Provider::kShm ? "shm" : "tcp";
}

std::string_view text(Path path) noexcept {
  return path == Path::kDirect ? "direct" : path == Path::kChain ? "chain" : "rpc";
}

std::string_view text(KvPeer peer) noexcept {
  constexpr std::array kNames = {"redis", "memcached", "cuckoo", "table"};
  return kNames[static_cast<size_t>(peer)];
}

bool KvLoad::is_beside(KvPeer peer) const noexcept {
  return std::ranges::find(beside, peer) != beside.end();
}

bool KvLoad::has(std::string_view design) const noexcept {
  return std::ranges::find(designs, design) != designs.end();
}

std::string_view text(Sweep sweep) noexcept {
  constexpr std::array kNames = {"none", "rate", "depth", "clients", "shards", "size"};
  return kNames[static_cast<size_t>(sweep)];
}

double KvSide::requests_per_operation() const noexcept {
  return sum.operations == 0 ? 0 : static_cast<double>(sum.requests) / static_cast<double>(sum.operations);
}

std::optional<double> KvSide::server_ns_per_operation() const noexcept {
  if (!server_cpu_ns || sum.operations == 0) return std::nullopt;
  return static_cast<double>(*server_cpu_ns) / static_cast<double>(sum.operations);
}

double drift_of(const KvLoad& load, const Reference& before, const Reference& after) {
  const bool has_servers = !std::ranges::all_of(load.beside, is_in_process);
  const bool has_shm = load.provider == Provider::kShm;
  double most = 0;
  if (has_shm) most = drift(before, after, Over::kSharedMemory);
  if (!has_shm || has_servers) most = std::max(most, drift(before, after, Over::kTcp));
  return most;
}

double KvResult::over_base(const KvSide& side) const {
  const double there = spread_of(sides[base].rates).median;
  return there > 0 ? spread_of(side.rates).median / there : 0;
}

Reported<> check(const KvLoad& load) {
  const WorkloadOptions& workload = load.workload;
  if (load.driver.depth % load.driver.batch != 0) {
    return refuse(
        fmt::format("--depth {} is no multiple of --batch {}", load.driver.depth, load.driver.batch),
        "the operations in flight are whole batches");
  }
  const uint64_t entries_each = workload.scan_share > 0 ? kScanEntriesMax : 1;
  if (load.driver.depth * load.clients * entries_each * workload.value_bytes > uint64_t{8} << 30) {
    return refuse("the values in flight would take more than 8 GiB",
                  "lower --depth, --clients or --value-bytes");
  }
  if (load.sweep == Sweep::kRate && workload.rate > 0) {
    return refuse("--sweep rate chooses the rates itself", "leave --rate out");
  }
  if (load.sweep == Sweep::kRate && workload.operations > 0) {
    return refuse("--sweep rate measures over time, not over a number of operations",
                  "give --seconds instead of --ops");
  }
  if (!load.address.empty() && load.paths.size() != 1) {
    return refuse("--path all wants a private node, whose paths are known", "name one path, or no --address");
  }
  for (const std::string& name : load.designs) {
    if (name == kOurs) continue;
    if (const Reported<> possible = check_for_designs(load, name); !possible) return possible;
  }
  if (const Reported<> possible = check_for_ycsb(load); !possible) return possible;
  return check_for_peers(load);
}

Reported<KvResult> run_kv_load(const KvLoad& load) {
  const Timer timer = Timer::calibrate();
  // Forks, so it comes before everything that grows or starts threads.
  const Reported<std::unique_ptr<References>> references = References::start(timer);
  if (!references) return report(references.error());
  const bool is_bound = load.address.empty() && core_count() >= load.clients + load.shards;
  const Reported<std::unique_ptr<KvStores>> stores = KvStores::start(load, is_bound);
  if (!stores) return report(stores.error());
  KvTurns turns({.timer = timer, .references = **references, .stores = **stores, .is_bound = is_bound}, load);
  return turns.measure(load);
}

}  // namespace refract::bench
