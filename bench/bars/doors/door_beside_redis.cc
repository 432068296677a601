// SPDX-License-Identifier: Apache-2.0
#include "bench/bars/doors/door_beside_redis.h"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "bench/bars/doors/redis_connection.h"
#include "bench/load/redis_driver.h"
#include "bench/sides/rivals.h"

namespace refract::bench {
namespace {

// All threads of a process that is not a child.
void bind_to_core(pid_t process, int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  std::error_code ignored;
  for (const auto& thread :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process), ignored)) {
    pid_t id = 0;
    const std::string name = thread.path().filename().string();
    std::from_chars(name.data(), name.data() + name.size(), id);
    if (id > 0) (void)::sched_setaffinity(id, sizeof(cores), &cores);
  }
}

}  // namespace

Reported<DoorBesideRedis> DoorBesideRedis::start(const BarRun& run, const DoorScene& scene) {
  Reported<PrivateNode> node = PrivateNode::start(
      {.program = run.options.node_program,
       .memory_limit_bytes = memory_bytes_for(std::max(scene.keys, scene.keys_max), 16, scene.value_bytes),
       .is_bound = scene.is_bound,
       .listen_address = scene.listens ? "127.0.0.1" : "",
       .has_door = true});
  if (!node) return report(node.error());
  DoorBesideRedis sides(scene, std::move(*node));
  const bool is_bound = scene.is_bound && core_count() > 1;
  if (is_bound) bind_to_core(sides.node().doors(), core_number(1));
  if (const Reported<> filled = sides.fill(sides.door_port()); !filled) return report(filled.error());
  if (!scene.has_redis) return sides;
  Reported<Redis> redis = Redis::start(
      {.over_tcp = true, .cpu = is_bound ? core_number(1) : -1, .clients_max = scene.redis_clients});
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
