// SPDX-License-Identifier: Apache-2.0
// When a shard's snapshots are written: by schedule if something was changed, when the log has grown to more
// than what it tells of, and when the log has failed, which a snapshot mends. Those of before then go.
//
// Threads: the shard's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "refract/node/snapshot_job.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"
#include "refract/storage/shard_log.h"

namespace refract::node {

class ShardSnapshots {
 public:
  // All outlive it.
  struct Parts {
    SnapshotJob::Parts job;
    runtime::Shard& shard;
    storage::ShardLog& log;
    uint64_t every_ns = 0;  // 0: not by schedule.
    uint64_t bytes_a_second = 0;
    std::string name;  // For the log: "shard 2: ".
  };
  struct Counters {
    uint64_t written = 0;
    uint64_t failed = 0;
    uint64_t last_entries = 0;
    uint64_t last_bytes = 0;
    uint64_t last_took_ns = 0;
  };
  explicit ShardSnapshots(Parts parts);
  ShardSnapshots(const ShardSnapshots&) = delete;
  ShardSnapshots& operator=(const ShardSnapshots&) = delete;
  ~ShardSnapshots();

  // Now and then, when the log has got on: it may be long, or have failed.
  void look_at_log() noexcept;
  // As soon as may be; where one is being written, another one behind it. `why` is for the log.
  void want(const char* why) noexcept;
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }

 private:
  [[nodiscard]] runtime::Task<> work_by_schedule();
  [[nodiscard]] runtime::Task<> work();
  [[nodiscard]] runtime::Task<> write_one(const char* why);
  void succeed(uint64_t stamp, uint64_t begun_ns, const storage::SnapshotTotals& totals);

  Parts parts_;
  const char* wanted_ = nullptr;  // Why; null: none is wanted.
  bool is_working_ = false;
  uint64_t covered_ = 0;  // The log's end when the last one began.
  Counters counters_;
  std::unique_ptr<SnapshotJob> job_;
};

}  // namespace refract::node
