// SPDX-License-Identifier: Apache-2.0
// The nodes of a store, as their clients see them.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "tests/nodes_transactions/node_process.h"
#include "tests/transactions/shard_places.h"

namespace refract::campaign {

class SeveralNodes final : public ShardPlaces {
 public:
  [[nodiscard]] NodeProcess& add(sim::World& world, sim::Host& host, const NodeProcess::Options& options) {
    clocks_.push_back(&host.clock());
    return nodes_.emplace_back(world, host, options);
  }
  [[nodiscard]] NodeProcess& node(uint32_t member) noexcept { return nodes_[member]; }

  [[nodiscard]] uint32_t shards() const noexcept override { return static_cast<uint32_t>(nodes_.size()); }
  [[nodiscard]] Keeper& keeper(uint32_t shard) noexcept override { return nodes_[shard].keeper(0); }
  [[nodiscard]] uint64_t life() const noexcept override { return 1; }
  [[nodiscard]] kv::wire::FarPlace place_of(uint32_t shard) const noexcept override {
    return {.member = static_cast<uint16_t>(shard), .shard = 0};
  }
  // Each is a machine, which its readers are on as well.
  [[nodiscard]] const Clock* clock_of(uint32_t shard) const noexcept override { return clocks_[shard]; }

 private:
  std::deque<NodeProcess> nodes_;
  std::vector<const Clock*> clocks_;
};

}  // namespace refract::campaign
