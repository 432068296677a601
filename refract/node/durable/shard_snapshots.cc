// SPDX-License-Identifier: Apache-2.0
#include "refract/node/durable/shard_snapshots.h"

#include <algorithm>
#include <utility>

#include "refract/base/log.h"
#include "refract/base/units.h"
#include "refract/storage/snapshot/snapshot_glance.h"

namespace refract::node {
namespace {

constexpr uint64_t kLook_ns = 2 * kMillisecond_ns;
// Behind a failure of the disk, which may last.
constexpr uint64_t kPause_ns = 10 * kSecond_ns;
// Until a client that asks meanwhile is noticed.
constexpr uint64_t kPatience_ns = 100 * kMillisecond_ns;
// A log shorter than this is never worth a snapshot of its own.
constexpr uint64_t kLogBytesMin = 512 * kMiB;

}  // namespace

ShardSnapshots::ShardSnapshots(Parts parts)
    : parts_(std::move(parts)), covered_(parts_.log.appended() - parts_.log.record_bytes()) {
  find_youngest();
  if (parts_.every_ns > 0) parts_.shard.spawn(work_by_schedule());
}

ShardSnapshots::~ShardSnapshots() = default;

// For status(): what a server before this one wrote. That it is sound is for those who read it to see.
void ShardSnapshots::find_youngest() {
  const auto all = storage::list_snapshots(parts_.job.disk);
  if (!all) return;
  for (const storage::SnapshotName& each : *all) {
    if (each.shard_index == parts_.shard_index) status_.file = parts_.job.disk.path_of(each.name);
  }
  for (const storage::SnapshotName& each : *all) {
    if (parts_.job.disk.path_of(each.name) != status_.file) continue;
    const auto glance = storage::glance_at_snapshot(parts_.job.disk, each.name);
    if (!glance) return;
    status_.entries = glance->totals.entries;
    status_.bytes = glance->totals.file_bytes;
    const uint64_t wall_ns = parts_.shard.clock().wall_ns();
    youngest_age_ = wall_ns - std::min(wall_ns, glance->facts.wall_ns);
    ended_ns_ = parts_.shard.refresh_now();
  }
}

void ShardSnapshots::look_at_log() noexcept {
  if (parts_.log.state() == storage::LogState::kFailed) return want("the log has failed");
  const uint64_t live_bytes = parts_.heap.stats().bytes_live;
  if (parts_.log.appended() - covered_ > std::max(kLogBytesMin, 2 * live_bytes)) want("the log is long");
}

void ShardSnapshots::want(const char* why) noexcept {
  wanted_ = why;
  if (is_working_) return;
  is_working_ = true;
  parts_.shard.spawn(work());
}

uint64_t ShardSnapshots::want_now() noexcept {
  const uint64_t attempt = status_.begun + 1;
  is_awaited_ = true;
  want("a client asks for it");
  return attempt;
}

observe::SnapshotStatus ShardSnapshots::status() const {
  observe::SnapshotStatus status = status_;
  const uint64_t now_ns = parts_.shard.clock().now_ns();
  if (job_) {
    const StoreSnapshot::Progress progress = job_->progress();
    status.entries_now = progress.entries;
    status.bytes_now = progress.bytes;
    status.entries_max = job_->facts().entries_max;
  }
  if (!status.file.empty()) status.age_ns = now_ns - ended_ns_ + youngest_age_;
  if (status.failed_attempt != 0) status.failed_age_ns = now_ns - failed_ns_;
  return status;
}

runtime::Task<> ShardSnapshots::work_by_schedule() {
  while (true) {
    co_await parts_.shard.sleep_for(parts_.every_ns);
    if (parts_.log.appended() != covered_) want("it is time");
  }
}

// So long, or until a client asks.
runtime::Task<> ShardSnapshots::pause(uint64_t ns) {
  const uint64_t until_ns = parts_.shard.now_ns() + ns;
  while (!is_awaited_ && parts_.shard.now_ns() < until_ns) co_await parts_.shard.sleep_for(kPatience_ns);
}

runtime::Task<> ShardSnapshots::work() {
  while (wanted_ != nullptr) {
    const uint64_t failed_before = failed_;
    is_awaited_ = false;
    co_await write_one(std::exchange(wanted_, nullptr));
    if (failed_ != failed_before) co_await pause(kPause_ns);
    if (parts_.log.state() == storage::LogState::kFailed && wanted_ == nullptr) {
      // A restart is under way, or this one did not come about.
      co_await pause(kSecond_ns);
      if (parts_.log.state() == storage::LogState::kFailed) wanted_ = "the log has failed";
    }
  }
  is_working_ = false;
}

runtime::Task<> ShardSnapshots::write_one(const char* why) {
  begun_ns_ = parts_.shard.refresh_now();
  const uint64_t covers = parts_.log.appended();
  ++status_.begun;
  auto started = SnapshotJob::start(
      parts_.job, {.bytes_per_second = parts_.bytes_a_second, .replaces = true, .log_position = covers});
  if (!started) {
    fail_with(started.error());
    co_return;
  }
  job_ = std::move(*started);
  log_debug("{}a snapshot begins: {}", parts_.name, why);
  while (job_->poll()) co_await parts_.shard.sleep_for(kLook_ns);
  const auto& outcome = job_->outcome();
  if (outcome) {
    covered_ = covers;
    succeed(job_->facts(), *outcome);
  } else {
    fail_with(outcome.error());
  }
  job_.reset();
}

void ShardSnapshots::fail_with(const Report& why) {
  ++failed_;
  failed_ns_ = parts_.shard.refresh_now();
  status_.failed_attempt = ++status_.ended;
  status_.failed_why = why.what;
  status_.failed_next = why.next;
  log_error("{}no snapshot: {}", parts_.name, why.what);
  if (!why.next.empty()) log_error("{}", why.next);
}

void ShardSnapshots::succeed(const storage::SnapshotFacts& facts, const storage::SnapshotTotals& totals) {
  ++written_;
  ended_ns_ = parts_.shard.refresh_now();
  youngest_age_ = 0;
  status_.written_attempt = ++status_.ended;
  status_.file = parts_.job.disk.path_of(storage::snapshot_name(facts.shard_index, facts.stamp));
  status_.entries = totals.entries;
  status_.bytes = totals.file_bytes;
  status_.took_ns = ended_ns_ - begun_ns_;
  log_info("{}a snapshot of {} entries is on the disk, {} MiB in {} ms", parts_.name, totals.entries,
           totals.file_bytes / kMiB, status_.took_ns / kMillisecond_ns);
  if (parts_.log.state() == storage::LogState::kFailed) {
    parts_.log.restart(facts.stamp);
  } else {
    parts_.log.drop_up_to(facts.stamp);
  }
}

}  // namespace refract::node
