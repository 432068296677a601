// SPDX-License-Identifier: Apache-2.0
#include "bench/sides/rivals.h"

#include <algorithm>
#include <vector>

#include "bench/load/redis_driver.h"

#include "refract/base/units.h"

namespace refract::bench {

std::string spin_knob(Waiting waiting) {
  // The longest that the knob takes; no gap between two requests of a measurement comes near.
  return waiting == Waiting::kPolling ? "10ms" : waiting == Waiting::kBlocking ? "0ns" : "";
}

uint64_t memory_bytes_for(uint64_t keys, size_t key_bytes, size_t value_bytes) noexcept {
  // A large value is rounded up to whole chunks of 1 MiB, and one more of them lies there while it is
  // replaced.
  const uint64_t large = value_bytes >= kMiB / 2 ? 16 * value_bytes + keys * kMiB : 0;
  return 128 * kMiB + large + keys * ((key_bytes + value_bytes) * 14 / 10 + 120);
}

Reported<Rivals> Rivals::start(const RivalsOptions& options) {
  Reported<PrivateNode> node =
      PrivateNode::start({.program = options.node_program,
                          .memory_limit_bytes = memory_bytes_for(std::max(options.keys, options.keys_max),
                                                                 options.key_bytes, options.value_bytes),
                          .spin = spin_knob(options.server_waiting),
                          .is_bound = options.is_bound,
                          .shards = options.shards,
                          .listen_address = options.over_tcp ? "127.0.0.1" : "",
                          .durability = options.durability});
  if (!node) return report(node.error());
  Rivals rivals(options, std::move(*node));
  if (const Reported<> filled = fill_node(rivals.node_, rivals.contents(), options.keys); !filled)
    return report(filled.error());
  if (!options.with_redis) return rivals;
  const int cpu = options.is_bound && core_count() > 1 ? core_number(1) : -1;
  Reported<Redis> redis = Redis::start({.over_tcp = true, .cpu = cpu, .append_fsync = options.durability});
  if (!redis) return report(redis.error());
  rivals.redis_.emplace(std::move(*redis));
  if (const Reported<> filled = fill_redis(*rivals.redis_, rivals.contents(), options.keys); !filled)
    return report(filled.error());
  return rivals;
}

Reported<> fill_node(const PrivateNode& node, const Contents& contents, uint64_t keys) {
  Reported<Client> client = Client::connect(node.socket_path());
  if (!client) return report(client.error());
  const size_t key_bytes = contents.key_bytes();
  const size_t value_bytes = contents.value_bytes();
  const uint64_t batch = std::clamp<uint64_t>(kMiB / (value_bytes + 1), 1, 256);
  std::vector<std::byte> key_memory(batch * key_bytes);
  std::vector<std::byte> value_memory(batch * value_bytes);
  std::vector<PutItem> puts(batch);
  for (uint64_t i = 0; i < batch; ++i) {
    puts[i].key = Bytes(std::span(key_memory).subspan(i * key_bytes, key_bytes));
    puts[i].value = Bytes(std::span(value_memory).subspan(i * value_bytes, value_bytes));
    contents.prepare_value(value_memory.data() + i * value_bytes);
  }
  for (uint64_t first = 0; first < keys; first += batch) {
    const std::span<PutItem> group = std::span(puts).first(std::min(batch, keys - first));
    for (uint64_t i = 0; i < group.size(); ++i) {
      contents.write_key(first + i, key_memory.data() + i * key_bytes);
      contents.make_value(first + i, value_memory.data() + i * value_bytes);
    }
    client->multi_put(group);
    for (const PutItem& put : group) {
      if (!put.result) return failed("put while filling the node", put.result.error().code);
    }
  }
  return {};
}

size_t filling_depth(const Contents& contents) noexcept {
  return contents.value_bytes() >= kMiB ? 1 : 256;
}

Reported<> fill_redis(const Redis& redis, const Contents& contents, uint64_t keys) {
  const size_t depth = filling_depth(contents);
  Reported<std::unique_ptr<RedisDriver>> filler =
      RedisDriver::connect(redis.port(), {.depth = depth}, contents);
  if (!filler) return report(filler.error());
  return (*filler)->fill(0, keys);
}

Reported<std::unique_ptr<StoreDriver>> Rivals::connect(const DriverOptions& options,
                                                       const ClientOptions& client) const {
  const std::string& address = options_.over_tcp ? node_.tcp_address() : node_.socket_path();
  return RefractDriver::connect({.address = address, .client = client}, options, contents());
}

Reported<std::unique_ptr<StoreDriver>> Rivals::connect_redis(const DriverOptions& options) const {
  return RedisDriver::connect(redis_->port(), options, contents());
}

}  // namespace refract::bench
