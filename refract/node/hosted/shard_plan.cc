// SPDX-License-Identifier: Apache-2.0
#include "refract/node/hosted/shard_plan.h"

#include <fmt/format.h>

#include "refract/fabric/shm/connection_memory.h"

namespace refract::node {

std::vector<ShardPlan> plan_shards(const NodeConfig& config, const NodeStores& stores) {
  std::vector<ShardPlan> plans;
  plans.reserve(config.server_shards + 1);
  for (uint32_t index = 0; index < config.server_shards; ++index) {
    plans.push_back({.index = index,
                     .name = config.server_shards == 1 ? "" : fmt::format("shard {}: ", index),
                     .stores = stores.keys,
                     .space = plan_key_space(config, index, stores.keys.front().area),
                     .is_on_disk = config.durability != Durability::kNone,
                     .knows_members = index == 0 || config.kv_placement != 0});
  }
  if (has_objects(config) && !stores.objects.empty()) {
    plans.push_back({.index = object_shard(config),
                     .name = "objects: ",
                     .stores = stores.objects,
                     .space = plan_object_space(config, stores.objects.front().area),
                     .knows_members = true,
                     .loans = fabric::shm::LoanLimits::of_objects(config.objects_limit_bytes),
                     .pin_tables = fabric::shm::kPinTablesMax,
                     .copies_by_team = true});
  }
  return plans;
}

}  // namespace refract::node
