// SPDX-License-Identifier: Apache-2.0
// One shard's snapshot from its moment to its file, with a thread of its own (docs/design/027-snapshots.md).
//
//   shard:  auto job = SnapshotJob::start({...}, {...});        // The moment is now.
//           every few milliseconds: job->poll();                // Gives back memory that has been read.
//           once ended() and poll() is false: outcome(), then destroy it
//
// While it keeps its pace, the thread runs in idle time alone. When it does not, or holds up memory that is
// needed, another one of more weight relieves it, because a thread may not raise itself.
//
// Nothing that the shard calls here blocks, but for the destructor. When it ended well, the log may drop what
// has stamps below the file's.
//
// Threads: made, polled and destroyed by the shard; progress(), ended() and cancel() by any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/report.h"
#include "refract/node/durable/hosted_keeping.h"
#include "refract/node/durable/log_stands.h"
#include "refract/runtime/shard_thread.h"
#include "refract/storage/snapshot/snapshot_file.h"

namespace refract::node {

class SnapshotJob {
 public:
  // All outlive the job.
  struct Parts {
    // Of the first row: the moment is when it is called.
    std::function<std::unique_ptr<StoreSnapshot>(const StoreSnapshot::Options&)> begin;
    const Clock& clock;
    storage::Disk& disk;
    storage::StoreId store{};
    const HostedKeeping* hosted = nullptr;  // Null: there are no other stores.
    // Null: no other shard's log may lose what the snapshot has. Else it counts when these have synced it.
    LogStands* stands = nullptr;
  };
  struct Options {
    uint64_t bytes_per_second = 0;  // 0: as fast as the disk takes it.
    bool replaces = false;          // Once it is on the disk, the shard's earlier ones are removed.
    uint64_t log_position = 0;      // Where the shard's log ends now; 0: it has none.
  };

  // REQUIRES: no other snapshot of the shard is under way. kSystem: no thread could be had.
  [[nodiscard]] static Reported<std::unique_ptr<SnapshotJob>> start(const Parts& parts,
                                                                    const Options& options);
  SnapshotJob(const SnapshotJob&) = delete;
  SnapshotJob& operator=(const SnapshotJob&) = delete;
  // Cancels what has not ended, and waits for it: as long as one call of the disk takes.
  ~SnapshotJob();

  // True while there is more to give back, or to wait for. To be called every few milliseconds.
  bool poll() noexcept;
  // What its file says of the moment.
  [[nodiscard]] const storage::SnapshotFacts& facts() const noexcept { return facts_; }
  [[nodiscard]] StoreSnapshot::Progress progress() const noexcept { return contents_->progress(); }
  void cancel() noexcept;
  [[nodiscard]] bool ended() const noexcept { return has_ended_.load(std::memory_order_acquire); }
  // Of the file, which is there whatever happens; or why there is none. REQUIRES: ended().
  [[nodiscard]] const Reported<storage::SnapshotTotals>& outcome() const noexcept { return outcome_; }

 private:
  SnapshotJob(const Parts& parts, const Options& options);
  [[nodiscard]] Code write(const storage::SnapshotReader::Block& block);
  [[nodiscard]] Reported<std::unique_ptr<runtime::ShardThread>> start_thread(runtime::ThreadOptions options,
                                                                             int (SnapshotJob::*body)());
  // Whether the thread of little weight gets too little of the CPUs for what is asked of it.
  [[nodiscard]] bool needs_relief() const noexcept;
  int begin_work();
  int work(const std::atomic<bool>* is_relieved);
  int relieve();
  [[nodiscard]] Reported<> begin_file();
  [[nodiscard]] Reported<storage::SnapshotTotals> end_file(Code code);
  [[nodiscard]] Reported<> write_hosted();
  void wait_for_others();
  void end(Reported<storage::SnapshotTotals> outcome) noexcept;
  void remove_older();
  void wait(uint64_t ns);

  const Parts parts_;
  const Options options_;
  const uint64_t began_ns_;
  const std::unique_ptr<StoreSnapshot> contents_;
  storage::SnapshotFacts facts_;
  const std::vector<std::vector<std::byte>> hosted_;  // Payloads, of the same moment.
  const std::vector<storage::LogStand> others_;       // Where other shards' logs stood a moment later.
  std::unique_ptr<storage::SnapshotWriter> file_;
  std::optional<Report> disk_failure_;
  Reported<storage::SnapshotTotals> outcome_;
  std::atomic<bool> has_ended_ = false;
  std::mutex mutex_;
  std::condition_variable is_cancelled_;
  std::atomic<bool> is_relieved_ = false;
  // Last: they work on all of the above, one after the other; the second waits for the first.
  std::unique_ptr<runtime::ShardThread> thread_;
  std::unique_ptr<runtime::ShardThread> relief_;
};

}  // namespace refract::node
