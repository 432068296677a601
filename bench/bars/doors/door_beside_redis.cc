// SPDX-License-Identifier: Apache-2.0
#include "bench/bars/doors/door_beside_redis.h"

#include <memory>
#include <utility>

#include "bench/bars/doors/redis_connection.h"
#include "bench/load/redis_driver.h"
#include "bench/sides/rivals.h"

namespace refract::bench {

Reported<DoorBesideRedis> DoorBesideRedis::start(const BarRun& run, const DoorScene& scene) {
  Reported<PrivateNode> node =
      PrivateNode::start({.program = run.options.node_program,
                          .memory_limit_bytes = memory_bytes_for(scene.keys, 16, scene.value_bytes),
                          .is_bound = false,
                          .listen_address = scene.listens ? "127.0.0.1" : "",
                          .has_door = true});
  if (!node) return report(node.error());
  DoorBesideRedis sides(scene, std::move(*node));
  if (const Reported<> filled = sides.fill(sides.door_port()); !filled) return report(filled.error());
  if (!scene.has_redis) return sides;
  Reported<Redis> redis = Redis::start({.over_tcp = true, .clients_max = scene.redis_clients});
  if (!redis) return report(redis.error());
  sides.redis_.emplace(std::move(*redis));
  if (const Reported<> filled = sides.fill(sides.redis_port()); !filled) return report(filled.error());
  return sides;
}

Reported<> DoorBesideRedis::fill(uint16_t port) const {
  if (scene_.held == Held::kNothing) return {};
  if (scene_.held == Held::kNumbered) return fill_numbered(port, scene_.keys, scene_.value_bytes);
  Reported<std::unique_ptr<RedisDriver>> filler =
      RedisDriver::connect(port, {.depth = filling_depth(contents())}, contents());
  if (!filler) return report(filler.error());
  return (*filler)->fill(0, scene_.keys);
}

}  // namespace refract::bench
