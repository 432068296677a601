// SPDX-License-Identifier: Apache-2.0
#include "bench/kv_load.h"

#include <fmt/core.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>

#include "bench/redis_driver.h"
#include "bench/refract_driver.h"
#include "bench/rivals.h"

namespace refract::bench {
namespace {

constexpr std::array kSweepShares = {0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5};

// One store under the load, and the cores on which its clients sit.
class Side {
 public:
  Side(const KvLoad& load, const Timer& timer, std::string name, std::string how, bool is_bound)
      : load_(load), timer_(timer) {
    side_.name = std::move(name);
    side_.how = std::move(how);
    if (!is_bound) return;
    // Servers have core 1 and those behind it.
    for (size_t k = 0; k < load.clients; ++k) cores_.push_back(k == 0 ? 0 : load.shards + k);
  }
  using Connect = std::function<Reported<std::unique_ptr<StoreDriver>>(const DriverOptions&)>;

  [[nodiscard]] Reported<> take_turn(const Connect& connect, uint64_t seed) {
    const Reported<WorkloadResult> result = run(connect, load_.workload.rate, seed);
    if (!result) return report(result.error());
    side_.rates.push_back(result->per_second());
    side_.sum.add_after(*result);
    return {};
  }

  [[nodiscard]] Reported<> sweep(const Connect& connect) {
    const double most = spread_of(side_.rates).median;
    for (const double share : kSweepShares) {
      const Reported<WorkloadResult> result = run(connect, most * share, 1);
      if (!result) return report(result.error());
      side_.sweep.push_back({.share = share, .offered = most * share, .result = *result});
    }
    return {};
  }

  [[nodiscard]] KvSide& found() noexcept { return side_; }

 private:
  [[nodiscard]] Reported<WorkloadResult> run(const Connect& connect, double rate, uint64_t seed) {
    DriverOptions driver = load_.driver;
    driver.has_rate = rate > 0;
    std::vector<WorkloadOptions> workloads(load_.clients, load_.workload);
    for (size_t k = 0; k < workloads.size(); ++k) {
      workloads[k].rate = rate / static_cast<double>(load_.clients);
      workloads[k].seed = seed * load_.clients + k + 1;
      if (load_.workload.operations > 0) {
        workloads[k].operations = (load_.workload.operations + load_.clients - 1) / load_.clients;
      }
    }
    return run_clients(workloads, timer_, [&] { return connect(driver); }, cores_);
  }

  const KvLoad& load_;
  Timer timer_;
  std::vector<size_t> cores_;
  KvSide side_;
};

std::string how_of(const KvLoad& load) {
  if (!load.address.empty()) return load.address;
  if (load.provider == Provider::kTcp) return load.path == Path::kChain ? "tcp, by chains" : "tcp";
  if (load.path == Path::kChain) return "shm, by chains";
  return load.path == Path::kDirect ? "shm, gets directly" : "shm, all to the server";
}

// The stores, and who connects to them.
struct Stores {
  std::optional<Rivals> rivals;  // Ours is a private one.
  std::optional<Redis> redis;    // Beside a node that was named.
  uint16_t redis_port = 0;
};

Reported<Stores> start_stores(const KvLoad& load, bool is_bound) {
  Stores stores;
  const WorkloadOptions& entries = load.workload;
  const bool is_private = load.address.empty();
  if (is_private) {
    Reported<Rivals> rivals = Rivals::start({.node_program = load.node_program,
                                             .keys = entries.keys,
                                             .key_bytes = entries.key_bytes,
                                             .value_bytes = entries.value_bytes,
                                             .with_redis = load.beside_redis,
                                             .over_tcp = load.provider == Provider::kTcp,
                                             .server_waiting = load.driver.waiting,
                                             .shards = load.shards,
                                             .is_bound = is_bound});
    if (!rivals) return report(rivals.error());
    stores.rivals.emplace(std::move(*rivals));
    if (load.beside_redis) stores.redis_port = stores.rivals->redis().port();
    return stores;
  }
  if (!load.beside_redis) return stores;
  Reported<Redis> redis = Redis::start({.over_tcp = true, .cpu = -1});
  if (!redis) return report(redis.error());
  stores.redis_port = redis->port();
  const Contents contents(entries.key_bytes, entries.value_bytes);
  if (const Reported<> filled = fill_redis(*redis, contents, entries.keys); !filled) {
    return report(filled.error());
  }
  stores.redis.emplace(std::move(*redis));
  return stores;
}

Paths paths_of(Path path) noexcept {
  switch (path) {
    case Path::kRpc:
      return Paths::kRpc;
    case Path::kChain:
      return Paths::kChain;
    case Path::kDirect:
      break;
  }
  return Paths::kAuto;
}

// Takes the direct path or fails: a figure of another one would carry the wrong name.
Reported<std::unique_ptr<StoreDriver>> connect_ours(const KvLoad& load, const Stores& stores,
                                                    const DriverOptions& options) {
  RefractDriver::Target target;
  if (stores.rivals) {
    const PrivateNode& node = stores.rivals->node();
    target.address = load.provider == Provider::kTcp ? node.tcp_address() : node.socket_path();
  } else {
    target.address = load.address;
  }
  target.client.paths = paths_of(load.path);
  const Contents contents(load.workload.key_bytes, load.workload.value_bytes);
  Reported<std::unique_ptr<RefractDriver>> driver = RefractDriver::connect(target, options, contents);
  if (!driver) return report(driver.error());
  const Route route = (*driver)->client().route();
  const bool wants_direct = load.path == Path::kDirect && load.provider == Provider::kShm;
  if (stores.rivals && wants_direct && !route.direct) {
    return report(Code::kUnsupported, "the client does not read directly: " + route.reason);
  }
  return std::unique_ptr<StoreDriver>(std::move(*driver));
}

}  // namespace

Reported<> check(const KvLoad& load) {
  const auto refuse = [](std::string what, std::string next) {
    return report(Code::kInvalidArgument, std::move(what), std::move(next));
  };
  const WorkloadOptions& workload = load.workload;
  if (load.driver.depth % load.driver.batch != 0) {
    return refuse(
        fmt::format("--depth {} is no multiple of --batch {}", load.driver.depth, load.driver.batch),
        "the operations in flight are whole batches");
  }
  if (load.driver.depth * load.clients * workload.value_bytes > uint64_t{8} << 30) {
    return refuse("the values in flight would take more than 8 GiB",
                  "lower --depth, --clients or --value-bytes");
  }
  if (load.sweep && workload.rate > 0) return refuse("--sweep chooses the rates itself", "leave --rate out");
  if (load.sweep && workload.operations > 0) {
    return refuse("--sweep measures over time, not over a number of operations",
                  "give --seconds instead of --ops");
  }
  return {};
}

Reported<KvResult> run_kv_load(const KvLoad& load) {
  const Timer timer = Timer::calibrate();
  // Forks, so it comes before everything that grows or starts threads.
  const Reported<std::unique_ptr<References>> references = References::start(timer);
  if (!references) return report(references.error());
  KvResult result;
  result.is_bound = load.address.empty() && core_count() >= load.clients + load.shards;
  const Reported<Stores> stores = start_stores(load, result.is_bound);
  if (!stores) return report(stores.error());

  Side ours(load, timer, "refract", how_of(load), result.is_bound);
  Side redis(load, timer, "redis", "tcp, pipelined", result.is_bound);
  const Side::Connect to_ours = [&](const DriverOptions& options) {
    return connect_ours(load, *stores, options);
  };
  const Contents contents(load.workload.key_bytes, load.workload.value_bytes);
  const Side::Connect to_redis = [&](const DriverOptions& options) -> Reported<std::unique_ptr<StoreDriver>> {
    auto driver = RedisDriver::connect(stores->redis_port, options, contents);
    if (!driver) return report(driver.error());
    return std::unique_ptr<StoreDriver>(std::move(*driver));
  };
  result.before = (*references)->measure();
  for (int turn = 0; turn < load.turns; ++turn) {
    const auto seed = static_cast<uint64_t>(turn);
    if (const Reported<> done = ours.take_turn(to_ours, seed); !done) return report(done.error());
    if (!load.beside_redis) continue;
    if (const Reported<> done = redis.take_turn(to_redis, seed); !done) return report(done.error());
  }
  if (load.sweep) {
    if (const Reported<> done = ours.sweep(to_ours); !done) return report(done.error());
    if (load.beside_redis) {
      if (const Reported<> done = redis.sweep(to_redis); !done) return report(done.error());
    }
  }
  result.after = (*references)->measure();
  result.sides.push_back(std::move(ours.found()));
  if (load.beside_redis) result.sides.push_back(std::move(redis.found()));
  return result;
}

}  // namespace refract::bench
