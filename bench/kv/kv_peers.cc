// SPDX-License-Identifier: Apache-2.0
// The stores of others that a load is put on beside ours.
#include <fmt/core.h>

#include <memory>
#include <utility>

#include "bench/kv/kv_sides.h"
#include "bench/load/memcached_driver.h"
#include "bench/load/redis_driver.h"
#include "bench/load/table_driver.h"
#include "bench/measure/beside.h"

namespace refract::bench {

Reported<> KvStores::start_peer(KvPeer peer) {
  if (is_in_process(peer)) return start_table(peer);
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
    return RedisDriver::connect(redis_->port(), options, contents_);
  };
  side.server_cpu_ns = [this] { return test::use_of(redis_->pid()).cpu_ns; };
  side.server_pid = [this] { return redis_->pid(); };
  sides_.push_back(std::move(side));
  return {};
}

Reported<> KvStores::start_memcached() {
  const WorkloadOptions& entries = load_.workload;
  Reported<Memcached> memcached = Memcached::start({.cpu = server_cpu(),
                                                    .keys = load_.keys_with_inserts(),
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
    return MemcachedDriver::connect(memcached_->port(), options, contents_);
  };
  side.server_cpu_ns = [this] { return test::use_of(memcached_->pid()).cpu_ns; };
  side.server_pid = [this] { return memcached_->pid(); };
  sides_.push_back(std::move(side));
  return {};
}

Reported<> KvStores::start_table(KvPeer peer) {
  const WorkloadOptions& entries = load_.workload;
  const ByteTable::Sizes sizes = {
      .keys = load_.keys_with_inserts(), .key_bytes = entries.key_bytes, .value_bytes = entries.value_bytes};
  Reported<std::unique_ptr<ByteTable>> made =
      peer == KvPeer::kCuckoo ? make_cuckoo_table(sizes) : make_open_addressing(sizes);
  if (!made) return report(made.error());
  ByteTable& table = *tables_.emplace_back(std::move(*made));
  fill_table(table, contents_, entries.keys);
  Side side;
  side.name = text(peer);
  side.how = fmt::format("in the client's process, one at a time; {}", table.form());
  side.served_by = "the client's own thread";
  side.connect = [this, &table](const DriverOptions&) -> Reported<std::unique_ptr<StoreDriver>> {
    return std::make_unique<TableDriver>(table, contents_);
  };
  sides_.push_back(std::move(side));
  return {};
}

}  // namespace refract::bench
