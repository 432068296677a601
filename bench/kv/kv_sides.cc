// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/kv_sides.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "bench/kv/design_driver.h"
#include "bench/load/refract_driver.h"
#include "bench/suites/served_store.h"

#include "refract/base/units.h"
#include "refract/kv/designs/designs.h"

namespace refract::bench {
namespace {

constexpr size_t kSideFillers = 64;
constexpr uint64_t kAdaptiveSpin_ns = 50 * kMicrosecond_ns;  // As a node's knob server.spin has it.
constexpr uint64_t kPollingSpin_ns = 10 * kMillisecond_ns;   // As much as that knob takes.

Paths client_paths(Path path) noexcept {
  constexpr std::array kPaths = {Paths::kAuto, Paths::kChain, Paths::kRpc};
  return kPaths[static_cast<size_t>(path)];
}

std::string how_of(const KvLoad& load, Path path) {
  if (!load.address.empty()) return load.address;
  if (load.provider == Provider::kTcp) return path == Path::kChain ? "tcp, by chains" : "tcp";
  if (path == Path::kChain) return "shm, by chains";
  return path == Path::kDirect ? "shm, gets directly" : "shm, all to the server";
}

SuiteFabric fabric_of(Provider provider) noexcept {
  return provider == Provider::kShm ? SuiteFabric::kShm : SuiteFabric::kTcp;
}

uint64_t server_spin_ns(Waiting waiting) noexcept {
  if (waiting == Waiting::kBlocking) return 0;
  return waiting == Waiting::kPolling ? kPollingSpin_ns : kAdaptiveSpin_ns;
}

// Made for exactly these keys, as each design sizes its index, and for what is under way.
kv::designs::Capacity capacity_for(const KvLoad& load) {
  const WorkloadOptions& workload = load.workload;
  const uint64_t in_flight = load.clients * load.driver.depth + kSideFillers;
  return {.keys_max = workload.keys,
          .key_bytes_max = static_cast<uint32_t>(workload.key_bytes),
          .value_bytes_min = static_cast<uint32_t>(workload.value_bytes),
          .value_bytes_max = static_cast<uint32_t>(workload.value_bytes),
          .spare_values = static_cast<uint32_t>(1024 + 4 * in_flight + 64 * load.clients)};
}

}  // namespace

std::vector<Path> paths_of(const KvLoad& load) {
  if (!load.paths.empty()) {
    // Who did not choose a path had the only one that is not chosen.
    const bool has_no_direct = load.address.empty() && load.provider == Provider::kTcp;
    std::vector<Path> paths = load.paths;
    if (has_no_direct) std::ranges::replace(paths, Path::kDirect, Path::kRpc);
    return paths;
  }
  if (load.provider == Provider::kTcp) return {Path::kChain, Path::kRpc};
  return {Path::kDirect, Path::kChain, Path::kRpc};
}

Reported<std::unique_ptr<KvStores>> KvStores::start(const KvLoad& load, bool is_bound) {
  std::unique_ptr<KvStores> stores(new KvStores(load, is_bound));
  // Processes before threads: they are forked from this one.
  if (load.has(kOurs)) {
    if (const Reported<> started = stores->start_ours(); !started) return report(started.error());
  }
  for (const KvPeer peer : load.beside) {
    if (const Reported<> started = stores->start_peer(peer); !started) return report(started.error());
  }
  for (const std::string& name : load.designs) {
    if (name == kOurs) continue;
    if (const Reported<> started = stores->start_design(name); !started) return report(started.error());
  }
  return stores;
}

Reported<> KvStores::start_ours() {
  if (load_.address.empty()) {
    const WorkloadOptions& entries = load_.workload;
    Reported<Rivals> node = Rivals::start({.node_program = load_.node_program,
                                           .keys = entries.keys,
                                           .keys_max = load_.keys_with_inserts(),
                                           .key_bytes = entries.key_bytes,
                                           .value_bytes = entries.value_bytes,
                                           .with_redis = false,
                                           .over_tcp = load_.provider == Provider::kTcp,
                                           .server_waiting = load_.driver.waiting,
                                           .shards = load_.shards,
                                           .is_bound = is_bound_});
    if (!node) return report(node.error());
    node_.emplace(std::move(*node));
  }
  const std::vector<Path> paths = paths_of(load_);
  for (const Path path : paths) {
    Side side;
    side.name = kOurs;
    if (paths.size() > 1) side.name += fmt::format(" {}", text(path));
    side.how = how_of(load_, path);
    side.connect = [this, path](const DriverOptions& options) { return connect_ours(path, options); };
    if (node_) {
      side.served_by = path == Path::kDirect ? "no thread; puts by the node's process"
                                             : fmt::format("the node's process, {} thread{}", load_.shards,
                                                           load_.shards == 1 ? "" : "s");
      side.server_cpu_ns = [this] { return test::use_of(node_->node().server()).cpu_ns; };
      side.server_pid = [this] { return node_->node().server(); };
    } else {
      side.served_by = "the node that was named";
    }
    if (path == Path::kRpc) base_ = sides_.size();
    sides_.push_back(std::move(side));
  }
  return {};
}

// Takes the direct path or fails: a figure of another one would carry the wrong name.
Reported<std::unique_ptr<StoreDriver>> KvStores::connect_ours(Path path, const DriverOptions& options) const {
  RefractDriver::Target target;
  if (node_) {
    const PrivateNode& node = node_->node();
    target.address = load_.provider == Provider::kTcp ? node.tcp_address() : node.socket_path();
  } else {
    target.address = load_.address;
  }
  target.client.paths = client_paths(path);
  Reported<std::unique_ptr<RefractDriver>> driver = RefractDriver::connect(target, options, contents_);
  if (!driver) return report(driver.error());
  const Route route = (*driver)->client().route();
  if (node_ && path == Path::kDirect && !route.direct) {
    return report(Code::kUnsupported, "the client does not read directly: " + route.reason);
  }
  return std::unique_ptr<StoreDriver>(std::move(*driver));
}

Reported<> KvStores::start_design(const std::string& name) {
  const kv::designs::Design* design = kv::designs::find(name);
  if (design == nullptr) return report(Code::kInvalidArgument, fmt::format("no design is called {}", name));
  const StoreSpec spec = {.design = design, .capacity = capacity_for(load_)};
  RealServer::Options options = {.fabric = fabric_of(load_.provider),
                                 .shard = {.spin_ns = server_spin_ns(load_.driver.waiting)}};
  if (is_bound_) options.core = kServerCore;
  Reported<std::unique_ptr<RealServer>> started = RealServer::start(options, serving(spec));
  if (!started) return report(started.error().code, fmt::format("{}: {}", name, started.error().what));
  const RealServer* server = servers_.emplace_back(std::move(*started)).get();
  const DesignDriver::Target target = {
      .design = design, .fabric = options.fabric, .address = server->address()};

  WorkloadOptions filling = load_.workload;
  filling.get_share = 0;
  filling.rate = 0;
  filling.seconds = 3600;
  filling.operations = 0;
  filling.in_order = true;
  Workload workload(filling, Timer::calibrate());
  const Reported<std::unique_ptr<DesignDriver>> filler =
      DesignDriver::connect(target, {.depth = kSideFillers, .batch = 1}, contents_);
  if (!filler) return report(filler.error());
  if (const Reported<WorkloadResult> filled = run_workload(**filler, workload); !filled) {
    return report(filled.error().code, fmt::format("{}: filling: {}", name, filled.error().what));
  }
  Side side;
  side.name = name;
  side.how = fmt::format("{}, as published", text(load_.provider));
  side.served_by = "one thread of this program, READs included";
  side.connect = [this, target](const DriverOptions& driver) -> Reported<std::unique_ptr<StoreDriver>> {
    return DesignDriver::connect(target, driver, contents_);
  };
  side.server_cpu_ns = [server] { return server->cpu_ns(); };
  sides_.push_back(std::move(side));
  return {};
}

}  // namespace refract::bench
