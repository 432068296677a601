// SPDX-License-Identifier: Apache-2.0
// A node's folder on disk, and what it says of the store: whose it is, and what time it has.
//
// Taken by the keeper, whose lock on it its servers inherit; it is free again when all of them have ended.
//
// Threads: the keeper's; of a server, any that calls a const function or the disk.
#pragma once

#include <cstdint>

#include "refract/base/report.h"
#include "refract/node/config.h"
#include "refract/node/store_space.h"
#include "refract/storage/shard_log.h"
#include "refract/storage/store_folder.h"

namespace refract::node {

class DataFolder {
 public:
  // Refused: a folder that another node has, that was made with another number of shards, or that is damaged.
  [[nodiscard]] static Reported<DataFolder> open(const NodeConfig& config);

  [[nodiscard]] storage::Disk& disk() noexcept { return folder_.disk(); }
  [[nodiscard]] storage::LogId log_of(uint32_t shard) const noexcept {
    const storage::StoreFacts& facts = folder_.facts();
    return {
        .store = facts.store, .shard = shard, .shard_count = facts.shard_count, .hash_seed = facts.hash_seed};
  }
  // What the memory is made with: the seed of the store, and its time.
  [[nodiscard]] StoreOrigin origin() const noexcept;
  // Something was kept here before.
  [[nodiscard]] bool existed() const noexcept { return folder_.existed(); }
  // The node ends.
  [[nodiscard]] Reported<> leave();

 private:
  explicit DataFolder(storage::StoreFolder folder) noexcept : folder_(std::move(folder)) {}

  storage::StoreFolder folder_;
};

// For a node that keeps nothing: says so in the log where its folder has data all the same.
void warn_of_unused_data(const NodeConfig& config);

}  // namespace refract::node
