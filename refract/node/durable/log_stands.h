// SPDX-License-Identifier: Apache-2.0
// Where the logs of a node's shards stand: what a transaction over several shards writes down of the others'
// (docs/design/068), so that a start behind the death of the host finds a common end.
//
// Threads: any, but for what says otherwise.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "refract/storage/log/common_end.h"
#include "refract/storage/log/shard_log.h"

namespace refract::node {

class LogStands {
 public:
  // Of shards 0 to shards - 1. With kAlways no record needs another log, for each is on the disk before what
  // follows from it.
  LogStands(uint32_t shards, storage::Durability durability)
      : shards_(shards),
        durability_(durability),
        stands_(std::make_unique<Stand[]>(shards)),
        logs_(shards),
        ready_(shards) {}

  [[nodiscard]] uint32_t shards() const noexcept { return shards_; }
  [[nodiscard]] bool are_needed() const noexcept { return durability_ == storage::Durability::kEverySecond; }

  // --- The shard's thread. ---

  // Its log, before it takes anything, and until it is gone. Waits until all shards have said so: none
  // follows from what another one has before that one's stand is known.
  void join(uint32_t shard, const storage::ShardLog& log);
  void leave(uint32_t shard);
  // Behind each record, before a slot, a word or an answer tells of it.
  void note(uint32_t shard, const storage::ShardLog& log) noexcept {
    stands_[shard].position.store(log.appended(), std::memory_order_release);
    stands_[shard].synced.store(log.synced(), std::memory_order_release);
  }
  // When the log's state may have changed.
  void note_state(uint32_t shard, const storage::ShardLog& log) noexcept;
  // A log holds what may not come to the disk soon, or at all: then none takes more, since a crash of the
  // host would take back what came behind that.
  [[nodiscard]] bool is_any_stuck() const noexcept { return stuck_.load(std::memory_order_acquire) != 0; }

  [[nodiscard]] storage::LogStand of(uint32_t shard) const noexcept;
  [[nodiscard]] std::vector<storage::LogStand> all() const;

  // --- A snapshot's thread. ---

  // Whether the logs of all other shards have synced what they had at these stands, so that what `shard` had
  // by then may be on the disk for good. A log that cannot is waited for only so long: the snapshot may be
  // what gives it room. A shard whose log has failed waits for others that have until their snapshots are
  // ready, too.
  [[nodiscard]] bool have_synced(uint32_t shard, const std::vector<storage::LogStand>& stands,
                                 uint64_t waited_ns);
  // The shard's snapshot is written, and waits; or does not any more.
  void set_ready(uint32_t shard, bool is_ready);

 private:
  struct alignas(64) Stand {
    std::atomic<uint64_t> position = 0;
    std::atomic<uint64_t> synced = 0;
    bool is_stuck = false;  // The shard's thread.
  };
  [[nodiscard]] bool is_passed(uint32_t other, bool is_failed_itself, uint64_t waited_ns) const;

  const uint32_t shards_;
  const storage::Durability durability_;
  std::unique_ptr<Stand[]> stands_;
  std::atomic<uint32_t> stuck_ = 0;  // So many.
  std::mutex mutex_;
  std::condition_variable joined_;
  uint32_t join_count_ = 0;
  std::vector<const storage::ShardLog*> logs_;
  std::vector<bool> ready_;
};

}  // namespace refract::node
