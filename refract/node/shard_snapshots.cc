// SPDX-License-Identifier: Apache-2.0
#include "refract/node/shard_snapshots.h"

#include <algorithm>
#include <utility>

#include "refract/base/log.h"
#include "refract/base/units.h"

namespace refract::node {
namespace {

constexpr uint64_t kLook_ns = 2 * kMillisecond_ns;
// Behind a failure of the disk, which may last.
constexpr uint64_t kPause_ns = 10 * kSecond_ns;
// A log shorter than this is never worth a snapshot of its own.
constexpr uint64_t kLogBytesMin = 512 * kMiB;

}  // namespace

ShardSnapshots::ShardSnapshots(Parts parts) : parts_(std::move(parts)), covered_(parts_.log.appended()) {
  if (parts_.every_ns > 0) parts_.shard.spawn(work_by_schedule());
}

ShardSnapshots::~ShardSnapshots() = default;

void ShardSnapshots::look_at_log() noexcept {
  if (parts_.log.state() == storage::LogState::kFailed) return want("the log has failed");
  const uint64_t live_bytes = parts_.job.heap.stats().bytes_live;
  if (parts_.log.appended() - covered_ > std::max(kLogBytesMin, 2 * live_bytes)) want("the log is long");
}

void ShardSnapshots::want(const char* why) noexcept {
  wanted_ = why;
  if (is_working_) return;
  is_working_ = true;
  parts_.shard.spawn(work());
}

runtime::Task<> ShardSnapshots::work_by_schedule() {
  while (true) {
    co_await parts_.shard.sleep_for(parts_.every_ns);
    if (parts_.log.appended() != covered_) want("it is time");
  }
}

runtime::Task<> ShardSnapshots::work() {
  while (wanted_ != nullptr) {
    const uint64_t failed_before = counters_.failed;
    co_await write_one(std::exchange(wanted_, nullptr));
    if (counters_.failed != failed_before) co_await parts_.shard.sleep_for(kPause_ns);
    if (parts_.log.state() == storage::LogState::kFailed && wanted_ == nullptr) {
      // A restart is under way, or this one did not come about.
      co_await parts_.shard.sleep_for(kSecond_ns);
      if (parts_.log.state() == storage::LogState::kFailed) wanted_ = "the log has failed";
    }
  }
  is_working_ = false;
}

runtime::Task<> ShardSnapshots::write_one(const char* why) {
  const uint64_t begun_ns = parts_.shard.now_ns();
  const uint64_t covers = parts_.log.appended();
  auto started =
      SnapshotJob::start(parts_.job, {.bytes_per_second = parts_.bytes_a_second, .replaces = true});
  if (!started) {
    ++counters_.failed;
    log_error("{}no snapshot: {}", parts_.name, started.error().what);
    co_return;
  }
  job_ = std::move(*started);
  log_debug("{}a snapshot begins: {}", parts_.name, why);
  while (job_->poll()) co_await parts_.shard.sleep_for(kLook_ns);
  const auto& outcome = job_->outcome();
  if (outcome) {
    covered_ = covers;
    succeed(job_->moment().stamp, begun_ns, *outcome);
  } else {
    ++counters_.failed;
    log_error("{}no snapshot: {}", parts_.name, outcome.error().what);
    if (!outcome.error().next.empty()) log_error("{}", outcome.error().next);
  }
  job_.reset();
}

void ShardSnapshots::succeed(uint64_t stamp, uint64_t begun_ns, const storage::SnapshotTotals& totals) {
  ++counters_.written;
  counters_.last_entries = totals.entries;
  counters_.last_bytes = totals.file_bytes;
  counters_.last_took_ns = parts_.shard.refresh_now() - begun_ns;
  log_info("{}a snapshot of {} entries is on the disk, {} MiB in {} ms", parts_.name, totals.entries,
           totals.file_bytes / kMiB, counters_.last_took_ns / kMillisecond_ns);
  if (parts_.log.state() == storage::LogState::kFailed) {
    parts_.log.restart(stamp);
  } else {
    parts_.log.drop_up_to(stamp);
  }
}

}  // namespace refract::node
