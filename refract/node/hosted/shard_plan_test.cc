// SPDX-License-Identifier: Apache-2.0
// Which shards a node has, and what each is for.
#include "refract/node/hosted/shard_plan.h"

#include <gtest/gtest.h>

#include "refract/base/units.h"
#include "refract/memory/pins.h"
#include "refract/node/hosted_kv/hosted_kv.h"

namespace refract::node {
namespace {

constexpr StoreRow kOfKeys[] = {kKvRow};
constexpr StoreRow kOfObjects[] = {{.name = "objects", .make = host_kv, .area = kKvRow.area}};
constexpr NodeStores kStores = {.keys = kOfKeys, .objects = kOfObjects};

NodeConfig config_of(uint32_t shards, uint64_t objects_bytes) {
  NodeConfig config;
  config.server_shards = shards;
  config.memory_limit_bytes = 64 * kMiB;
  config.memory_initial_bytes = 16 * kMiB;
  config.durability = Durability::kEverySecond;
  config.objects_limit_bytes = objects_bytes;
  return config;
}

TEST(ShardPlan, without_a_limit_there_is_no_shard_for_objects) {
  const auto plans = plan_shards(config_of(1, 0), kStores);
  ASSERT_EQ(plans.size(), 1U);
  EXPECT_EQ(plans[0].name, "") << "the only one";
  EXPECT_TRUE(plans[0].is_on_disk);
  EXPECT_EQ(plan_shards(config_of(2, 0), kStores).size(), 2U);
}

TEST(ShardPlan, objects_have_one_shard_behind_those_of_keys_whose_memory_it_leaves_alone) {
  const auto plans = plan_shards(config_of(2, kGiB), kStores);
  ASSERT_EQ(plans.size(), 3U);
  for (uint32_t index = 0; index < 2; ++index) {
    EXPECT_EQ(plans[index].index, index);
    EXPECT_EQ(plans[index].space.bytes_max, 32 * kMiB);
    EXPECT_EQ(plans[index].stores.front().name, "kv");
  }
  EXPECT_EQ(plans[1].name, "shard 1: ");
  EXPECT_EQ(plans[2].index, 2U);
  EXPECT_EQ(plans[2].name, "objects: ");
  EXPECT_EQ(plans[2].stores.front().name, "objects");
  EXPECT_FALSE(plans[2].is_on_disk);
  EXPECT_EQ(plans[2].space.shard_count, 2U) << "of those with keys";
  EXPECT_GT(plans[2].space.bytes_max, kGiB);
  EXPECT_GE(plans[2].loans.bytes_max, kGiB) << "of what a client fills";
  EXPECT_EQ(plans[1].loans.bytes_max, fabric::shm::LoanLimits{}.bytes_max);
  EXPECT_GE(plans[2].pin_tables * kPinsMax, 65'536U) << "objects that a connection holds";
  EXPECT_EQ(plans[1].pin_tables, 1U);
  EXPECT_TRUE(plans[2].copies_by_team);
  EXPECT_FALSE(plans[1].copies_by_team);
  EXPECT_TRUE(plans[0].knows_members);
  EXPECT_FALSE(plans[1].knows_members) << "it does not tell the list, and does not need it";
  EXPECT_TRUE(plans[2].knows_members);
}

}  // namespace
}  // namespace refract::node
