// SPDX-License-Identifier: Apache-2.0
// A node of ours and, on wish, a Redis beside it, both holding the same entries: what two sides are compared
// on.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "bench/load/refract_driver.h"
#include "bench/load/store_driver.h"
#include "bench/load/workload.h"
#include "bench/sides/private_node.h"
#include "bench/sides/redis.h"

namespace refract::bench {

struct RivalsOptions {
  std::string node_program;
  uint64_t keys = 1'000'000;
  uint64_t keys_max = 0;  // For which our node has room; fewer than `keys`: for them.
  size_t key_bytes = 16;
  size_t value_bytes = 64;
  bool with_redis = false;
  bool over_tcp = true;  // The node listens on loopback.
  Waiting server_waiting =
      Waiting::kAdaptive;  // Of our server; Redis always sleeps when it has nothing to do.
  uint64_t shards = 1;
  bool is_bound = true;         // Both servers to core 1.
  std::string durability = {};  // Of both: everysec or always; empty: in memory only.
};

class Rivals {
 public:
  // Without redis-server: kUnsupported.
  [[nodiscard]] static Reported<Rivals> start(const RivalsOptions& options);

  [[nodiscard]] const PrivateNode& node() const noexcept { return node_; }
  // REQUIRES: with_redis.
  [[nodiscard]] const Redis& redis() const noexcept { return *redis_; }
  [[nodiscard]] Contents contents() const noexcept { return {options_.key_bytes, options_.value_bytes}; }

  // A client of each. Ours goes over TCP if the node listens, else as `client` says.
  [[nodiscard]] Reported<std::unique_ptr<StoreDriver>> connect(const DriverOptions& options,
                                                               const ClientOptions& client = {}) const;
  [[nodiscard]] Reported<std::unique_ptr<StoreDriver>> connect_redis(const DriverOptions& options) const;

 private:
  Rivals(const RivalsOptions& options, PrivateNode node) : options_(options), node_(std::move(node)) {}

  RivalsOptions options_;
  PrivateNode node_;
  std::optional<Redis> redis_;
};

// Puts the entries 0 to `keys` into a node, over its socket.
[[nodiscard]] Reported<> fill_node(const PrivateNode& node, const Contents& contents, uint64_t keys);
[[nodiscard]] Reported<> fill_redis(const Redis& redis, const Contents& contents, uint64_t keys);
// How many entries are under way at a time while a server is filled over TCP.
[[nodiscard]] size_t filling_depth(const Contents& contents) noexcept;
// The knob server.spin for a server that waits so.
[[nodiscard]] std::string spin_knob(Waiting waiting);
// What a node needs for so many entries, with a quarter to spare.
[[nodiscard]] uint64_t memory_bytes_for(uint64_t keys, size_t key_bytes, size_t value_bytes) noexcept;

}  // namespace refract::bench
