// SPDX-License-Identifier: Apache-2.0
// A node whose door speaks Redis's protocol, and a Redis beside it, both holding the same entries, both
// reached at ports of loopback.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "bench/bars/bars.h"
#include "bench/load/workload.h"
#include "bench/sides/private_node.h"
#include "bench/sides/redis.h"

namespace refract::bench {

enum class Held : uint8_t {
  kNothing,
  kNumbered,  // As redis-benchmark names its keys, see numbered_key().
  kContents,  // Those of contents().
};

struct DoorScene {
  uint64_t keys = 0;      // For which our node has room, whatever it holds.
  uint64_t keys_max = 0;  // Room for so many, where there are more.
  size_t value_bytes = 64;
  Held held = Held::kNumbered;
  bool has_redis = true;
  bool is_bound = false;     // All servers and the doors to core 1.
  bool listens = false;      // The node over TCP, too.
  size_t redis_clients = 0;  // That Redis takes; 0: its default.
};

class DoorBesideRedis {
 public:
  // Without redis-server, where it is wanted: kUnsupported.
  [[nodiscard]] static Reported<DoorBesideRedis> start(const BarRun& run, const DoorScene& scene);

  [[nodiscard]] const PrivateNode& node() const noexcept { return node_; }
  [[nodiscard]] uint16_t door_port() const noexcept { return node_.door_port(); }
  // REQUIRES: has_redis.
  [[nodiscard]] Redis& redis() noexcept { return *redis_; }
  [[nodiscard]] uint16_t redis_port() const noexcept { return redis_->port(); }
  // "Redis 7.0.15"
  [[nodiscard]] std::string redis_name() const { return "Redis " + redis_->version(); }
  // Keys of 16 bytes.
  [[nodiscard]] Contents contents() const noexcept { return {16, scene_.value_bytes}; }

 private:
  DoorBesideRedis(const DoorScene& scene, PrivateNode node) : scene_(scene), node_(std::move(node)) {}
  [[nodiscard]] Reported<> fill(uint16_t port) const;

  DoorScene scene_;
  PrivateNode node_;
  std::optional<Redis> redis_;
};

}  // namespace refract::bench
