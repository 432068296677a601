// SPDX-License-Identifier: Apache-2.0
// The stores of others that a load is put on beside ours.
#include <memory>
#include <utility>

#include "bench/child_process.h"
#include "bench/kv_sides.h"
#include "bench/memcached_driver.h"
#include "bench/redis_driver.h"

namespace refract::bench {

Reported<> KvStores::start_peer(KvPeer peer) {
  return peer == KvPeer::kRedis ? start_redis() : start_memcached();
}

int KvStores::server_cpu() const {
  return is_bound_ && core_count() > kServerCore ? core_number(kServerCore) : -1;
}

Reported<> KvStores::start_redis() {
  Reported<Redis> redis = Redis::start({.over_tcp = true, .cpu = server_cpu()});
  if (!redis) return report(redis.error());
  if (const Reported<> filled = fill_redis(*redis, contents_, load_.workload.keys); !filled) {
    return report(filled.error());
  }
  redis_.emplace(std::move(*redis));
  Side side;
  side.name = text(KvPeer::kRedis);
  side.how = "tcp, pipelined";
  side.served_by = "redis-server, one thread";
  side.connect = [this](const DriverOptions& options) -> Reported<std::unique_ptr<StoreDriver>> {
    auto driver = RedisDriver::connect(redis_->port(), options, contents_);
    if (!driver) return report(driver.error());
    return std::unique_ptr<StoreDriver>(std::move(*driver));
  };
  side.server_cpu_ns = [this] { return use_of(redis_->pid()).cpu_ns; };
  sides_.push_back(std::move(side));
  return {};
}

Reported<> KvStores::start_memcached() {
  const WorkloadOptions& entries = load_.workload;
  Reported<Memcached> memcached = Memcached::start({.cpu = server_cpu(),
                                                    .keys = entries.keys,
                                                    .key_bytes = entries.key_bytes,
                                                    .value_bytes = entries.value_bytes});
  if (!memcached) return report(memcached.error());
  const size_t depth = filling_depth(contents_);
  const auto filler = MemcachedDriver::connect(memcached->port(), {.depth = depth}, contents_);
  if (!filler) return report(filler.error());
  if (const Reported<> filled = (*filler)->fill(0, entries.keys); !filled) return report(filled.error());
  memcached_.emplace(std::move(*memcached));
  Side side;
  side.name = text(KvPeer::kMemcached);
  side.how = "tcp, pipelined, binary protocol";
  side.served_by = "memcached, one thread";
  side.connect = [this](const DriverOptions& options) -> Reported<std::unique_ptr<StoreDriver>> {
    auto driver = MemcachedDriver::connect(memcached_->port(), options, contents_);
    if (!driver) return report(driver.error());
    return std::unique_ptr<StoreDriver>(std::move(*driver));
  };
  side.server_cpu_ns = [this] { return use_of(memcached_->pid()).cpu_ns; };
  sides_.push_back(std::move(side));
  return {};
}

}  // namespace refract::bench
