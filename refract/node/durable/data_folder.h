// SPDX-License-Identifier: Apache-2.0
// A node's folder on disk, and what it says of the store: whose it is, and what time it has.
//
// Taken by the keeper, whose lock on it its servers inherit; it is free again when all of them have ended.
//
// Threads: the keeper's; of a server, any that calls a const function or the disk.
#pragma once

#include <cstdint>

#include "refract/base/report.h"
#include "refract/node/config/config.h"
#include "refract/node/durable/data_rings.h"
#include "refract/node/space/store_space.h"
#include "refract/storage/log/shard_log.h"
#include "refract/storage/store_folder.h"

namespace refract::node {

class DataFolder {
 public:
  // Refused: a folder that another node has, that was made with another number of shards, other kv.copies or
  // other names in cluster.nodes, that is damaged, or whose rings are gone with what was acknowledged.
  [[nodiscard]] static Reported<DataFolder> open(const NodeConfig& config);

  [[nodiscard]] storage::Disk& disk() noexcept { return folder_.disk(); }
  [[nodiscard]] DataRings& rings() noexcept { return rings_; }
  [[nodiscard]] const storage::RingFile& ring_of(uint32_t shard) const noexcept { return rings_.of(shard); }
  // See DataRings.
  [[nodiscard]] Reported<> move_rings_to_memory() { return rings_.move_to_memory(folder_); }
  [[nodiscard]] storage::LogId log_of(uint32_t shard) const noexcept {
    const storage::StoreFacts& facts = folder_.facts();
    return {.store = facts.store,
            .shard = shard,
            .shard_count = facts.shard_count,
            .copies = facts.copies,
            .placement = facts.placement,
            .hash_seed = facts.hash_seed};
  }
  // What the memory is made with: the seed of the store, and its time.
  [[nodiscard]] StoreOrigin origin() const noexcept;
  // Something was kept here before.
  [[nodiscard]] bool existed() const noexcept { return folder_.existed(); }
  // The node ends. `is_settled`: the rings hold nothing that is not on the disk.
  [[nodiscard]] Reported<> leave(bool is_settled);

 private:
  DataFolder(storage::StoreFolder folder, DataRings rings) noexcept
      : folder_(std::move(folder)), rings_(std::move(rings)) {}

  storage::StoreFolder folder_;
  DataRings rings_;
};

// For a node that keeps nothing: says so in the log where its folder has data all the same.
void warn_of_unused_data(const NodeConfig& config);

}  // namespace refract::node
