// SPDX-License-Identifier: Apache-2.0
// When a shard's snapshots are written: by schedule if something was changed, when the log has grown to more
// than what it tells of, when a client asks for one, and when the log has failed, which a snapshot mends.
// Those of before then go.
//
// Threads: the shard's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "refract/memory/heap.h"
#include "refract/node/durable/snapshot_job.h"
#include "refract/node/observe/data_state.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"
#include "refract/storage/log/shard_log.h"

namespace refract::node {

class ShardSnapshots {
 public:
  // All outlive it.
  struct Parts {
    SnapshotJob::Parts job;
    runtime::Shard& shard;
    storage::ShardLog& log;
    const Heap& heap;
    uint64_t every_ns = 0;  // 0: not by schedule.
    uint64_t bytes_a_second = 0;
    std::string name;  // For the log: "shard 2: ".
    uint32_t shard_index = 0;
  };
  explicit ShardSnapshots(Parts parts);
  ShardSnapshots(const ShardSnapshots&) = delete;
  ShardSnapshots& operator=(const ShardSnapshots&) = delete;
  ~ShardSnapshots();

  // Now and then, when the log has got on: it may be long, or have failed.
  void look_at_log() noexcept;
  // As soon as may be; where one is being written, another one behind it. `why` is for the log.
  void want(const char* why) noexcept;
  // Likewise, for a caller that waits: at once also where the last one failed. Returns the attempt's number.
  uint64_t want_now() noexcept;
  // How it goes, and what there is.
  [[nodiscard]] observe::SnapshotStatus status() const;
  [[nodiscard]] uint64_t written() const noexcept { return written_; }
  [[nodiscard]] uint64_t failed() const noexcept { return failed_; }
  // Where the log's changes begin that the youngest snapshot does not have, or a little before.
  [[nodiscard]] uint64_t covered() const noexcept { return covered_; }

 private:
  [[nodiscard]] runtime::Task<> work_by_schedule();
  [[nodiscard]] runtime::Task<> work();
  [[nodiscard]] runtime::Task<> write_one(const char* why);
  [[nodiscard]] runtime::Task<> pause(uint64_t ns);
  void find_youngest();
  void fail_with(const Report& why);
  void succeed(const storage::SnapshotFacts& facts, const storage::SnapshotTotals& totals);

  Parts parts_;
  const char* wanted_ = nullptr;  // Why; null: none is wanted.
  bool is_working_ = false;
  bool is_awaited_ = false;  // A client asked for the one that is wanted.
  uint64_t covered_;
  uint64_t written_ = 0;
  uint64_t failed_ = 0;
  uint64_t begun_ns_ = 0;
  uint64_t ended_ns_ = 0;      // Of the last that was written.
  uint64_t failed_ns_ = 0;     // Of the last that failed.
  uint64_t youngest_age_ = 0;  // Of one that was there before this server, when it was found.
  observe::SnapshotStatus status_;
  std::unique_ptr<SnapshotJob> job_;
};

}  // namespace refract::node
