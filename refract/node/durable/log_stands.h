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

  // Whether a snapshot that is written may count: when the logs of all other shards have synced what they had
  // at the stands of its moment, for what it has is on the disk for good then. A log without room is waited
  // for only so long: the snapshot may be what gives it room. One that has failed is waited for until its own
  // snapshot has mended it; a shard whose log has failed itself waits until that one is written, too.
  struct Waiting {
    uint32_t shard = 0;
    uint64_t log_position = 0;  // Of the moment.
    const std::vector<storage::LogStand>& stands;
    uint64_t waited_ns = 0;
  };
  enum class Verdict : uint8_t {
    kCounts,
    kWaits,
    kIsUseless,  // The shard's log has failed since, and takes another one to be mended.
  };
  [[nodiscard]] Verdict judge(const Waiting& snapshot);
  // It waits no more.
  void end_wait(uint32_t shard);

 private:
  struct alignas(64) Stand {
    std::atomic<uint64_t> position = 0;
    std::atomic<uint64_t> synced = 0;
    // The shard's thread.
    bool is_stuck = false;
    uint64_t joined_at = 0;
  };
  [[nodiscard]] bool is_passed(uint32_t other, const Waiting& snapshot, bool has_failed_itself) const;

  const uint32_t shards_;
  const storage::Durability durability_;
  std::unique_ptr<Stand[]> stands_;
  std::atomic<uint32_t> stuck_ = 0;  // So many.
  std::mutex mutex_;
  std::condition_variable joined_;
  uint32_t join_count_ = 0;
  std::vector<const storage::ShardLog*> logs_;
  std::vector<uint64_t>
      ready_;  // Where the log ended at the moment of a snapshot that waits; 0: there is none.
};

}  // namespace refract::node
