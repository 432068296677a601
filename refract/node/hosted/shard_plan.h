// SPDX-License-Identifier: Apache-2.0
// The shards of a node, as its configuration has them: those of keys first, then that of objects, where there
// is one. Keys are routed over the first alone (NodeConfig::server_shards); a client names the last one by
// its number, which is theirs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "refract/fabric/shm/domain.h"
#include "refract/node/config/config.h"
#include "refract/node/hosted/hosted_store.h"
#include "refract/node/space/space_plan.h"

namespace refract::node {

// Which stores a program hosts. The rows outlive the process.
struct NodeStores {
  std::span<const StoreRow> keys;     // In each shard of keys. The first is the key-value store's.
  std::span<const StoreRow> objects;  // In the shard of objects. The first is theirs. None: no such shard.
};

struct ShardPlan {
  uint32_t index = 0;
  std::string name = {};  // For the log: "shard 2: ", "objects: ", nothing where there is only one.
  std::span<const StoreRow> stores;
  SpacePlan space = {};
  bool is_on_disk = false;     // What it has is kept as data.durability says.
  bool knows_members = false;  // The list of nodes, which it tells clients or shares objects by.
  // Of a client over shared memory: what it may lend, and how many tables of pins it has.
  fabric::shm::LoanLimits loans = {};
  uint32_t pin_tables = 1;
  bool copies_by_team = false;  // What it READs of clients' memory.
};

[[nodiscard]] std::vector<ShardPlan> plan_shards(const NodeConfig& config, const NodeStores& stores);

}  // namespace refract::node
