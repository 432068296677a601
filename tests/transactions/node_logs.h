// SPDX-License-Identifier: Apache-2.0
// The logs of all shards of a node, and what a start makes of them when its memories are new: the end that
// they have in common, and what became of what they leave open.
//
// Beside the product's own code for that stands a plain account of which changes the logs say have happened:
// it tells what a death of the host has taken, and what each memory has to hold.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/campaign/kv_server.h"
#include "tests/transactions/memory_log.h"

#include "refract/base/clock.h"
#include "refract/fabric/sim/world.h"
#include "refract/kv/owner/table/table.h"
#include "refract/storage/log/log_parts.h"

namespace refract::campaign {

class NodeLogs {
 public:
  struct Options {
    Durability durability = Durability::kAlways;
    Mutation mutation = Mutation::kNone;
    std::optional<size_t> slow_disk = {};  // Of this shard.
    std::function<void(const std::string&)> complain;
  };
  NodeLogs(sim::World& world, std::span<sim::Host* const> hosts, const Options& options);
  NodeLogs(const NodeLogs&) = delete;
  NodeLogs& operator=(const NodeLogs&) = delete;

  [[nodiscard]] MemoryLog& log(uint32_t shard) noexcept { return logs_[shard]; }
  [[nodiscard]] Durability durability() const noexcept { return options_.durability; }
  // All shards have, at one moment.
  void process_died();

  // What has happened by the logs.
  using Name = std::pair<uint64_t, uint64_t>;  // Place and number; zeroes: of no transaction over shards.
  struct Change {
    uint32_t shard = 0;
    std::string key;
    uint64_t stamp = 0;
    uint64_t replaced = 0;  // The entry's version; 0: there was none.
    bool is_erasure = false;
    std::string value;  // Its beginning.
    uint64_t moment_ns = 0;
    Name name;
  };
  // A death of the host, and what it took.
  struct Loss {
    uint64_t crashed_ns = 0;
    uint64_t decided_ns = 0;  // The last decision that is there; 0: none.
    std::vector<Change> changes;
  };
  [[nodiscard]] const std::vector<Loss>& losses() const noexcept { return losses_; }

  // All processes have died, and with `host_died` the rings: fills new memories, which are empty tables.
  // REQUIRES: process_died().
  void fill(std::span<Keeper* const> keepers, bool host_died, const Clock& clock);
  // What a table holds that is not what the logs say; empty: it is the same.
  [[nodiscard]] std::string compare(uint32_t shard, kv::Table& table) const;

  [[nodiscard]] MemoryLog::Counts counts() const noexcept;
  [[nodiscard]] uint64_t settled_in_fills() const noexcept { return settled_in_fills_; }

 private:
  using Names = std::set<Name>;
  [[nodiscard]] std::vector<storage::LogStand> stands_for(uint32_t shard) const;
  [[nodiscard]] Names decided() const;
  [[nodiscard]] std::vector<Change> changes_of(uint32_t shard, const Names& decided) const;
  [[nodiscard]] std::vector<Change> all_changes() const;
  void end_together();
  void note_loss(const std::vector<Change>& before, const Names& decided_before, bool host_died);
  void complain_of_halves(const std::vector<Change>& before, const Names& decided_before,
                          const std::set<std::pair<uint32_t, uint64_t>>& there);
  void fill_shard(uint32_t shard, Keeper& keeper, const Clock& clock, storage::LogParts& parts,
                  const storage::DecidedNumbers& found);
  void fill_all(std::span<Keeper* const> keepers, const Clock& clock);

  sim::World& world_;
  const Options options_;
  Prng prng_;
  std::deque<MemoryLog> logs_;
  std::vector<uint64_t> floors_;  // Of stamps, by shards, as the disks know them.
  std::vector<Loss> losses_;
  uint64_t settled_in_fills_ = 0;
};

}  // namespace refract::campaign
