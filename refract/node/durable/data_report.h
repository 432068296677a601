// SPDX-License-Identifier: Apache-2.0
// What a shard tells of the data that it keeps, put together from who knows it.
//
// Threads: the shard's.
#pragma once

#include <cstdint>

#include "refract/node/config/config.h"
#include "refract/node/durable/shard_storage.h"
#include "refract/node/hosted/shard_plan.h"
#include "refract/node/observe/data_state.h"

namespace refract::node {

// "none", "everysec", "always": as the configuration spells it.
[[nodiscard]] const char* durability_name(Durability durability) noexcept;

// `storage` null: nothing is kept on disk. `now_ns` is the host's clock. What the stores count is theirs to
// tell. REQUIRES: a storage has been started.
[[nodiscard]] observe::DataState data_state(const NodeConfig& config, const ShardPlan& plan,
                                            const ShardStorage* storage,
                                            const observe::RecoveryStatus& recovery, uint64_t now_ns);

}  // namespace refract::node
