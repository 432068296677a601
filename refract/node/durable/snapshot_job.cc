// SPDX-License-Identifier: Apache-2.0
#include "refract/node/durable/snapshot_job.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "refract/base/units.h"
#include "refract/memory/space.h"

namespace refract::node {
namespace {

// No caller waits for it, but clients may for a shard whose CPU it has.
constexpr int kNiceness = 10;
// How much later than its pace has it.
constexpr uint64_t kBehindMax_ns = 2 * kSecond_ns;

}  // namespace

Code SnapshotJob::FileSink::write(const kv::SnapshotBlock& block) {
  const Reported<> written = job_.file_->write(static_cast<uint64_t>(block.kind), block.entries, block.bytes);
  if (written) return Code::kOk;
  job_.disk_failure_ = written.error();
  return written.error().code;
}

SnapshotJob::SnapshotJob(const Parts& parts, Options options)
    : parts_(parts),
      options_(std::move(options)),
      began_ns_(parts.clock.now_ns()),
      feed_(parts.table, parts.heap, parts.writer, parts.store_clock, options_.feed),
      hosted_(parts.hosted == nullptr ? std::vector<std::vector<std::byte>>() : parts.hosted->snapshot()),
      // The space may grow meanwhile, and never beyond this.
      memory_(parts.writer.base(), parts.writer.view<SpaceHeader>({0}).chunks_max * kChunkBytes, nullptr),
      sink_(*this),
      run_(memory_, feed_, sink_, parts.clock,
           {.bytes_per_second = options_.bytes_per_second, .wait = [this](uint64_t ns) { wait(ns); }}) {}

Reported<std::unique_ptr<SnapshotJob>> SnapshotJob::start(const Parts& parts, Options options) {
  std::unique_ptr<SnapshotJob> job(new SnapshotJob(parts, std::move(options)));
  // Without a pace it is meant to be quick.
  const bool in_idle_time = job->options_.bytes_per_second != 0;
  auto started = job->start_thread({.niceness = in_idle_time ? 0 : kNiceness, .in_idle_time = in_idle_time},
                                   &SnapshotJob::begin_work);
  if (!started) {
    job->has_ended_ = true;
    return report(started.error());
  }
  job->thread_ = std::move(*started);
  return job;
}

Reported<std::unique_ptr<runtime::ShardThread>> SnapshotJob::start_thread(runtime::ThreadOptions options,
                                                                          int (SnapshotJob::*body)()) {
  options.name = fmt::format("refract-snap-{}", moment().shard_index);
  options.on_end = [](int) {};
  return runtime::ShardThread::start(std::move(options), [this, body] { return (this->*body)(); });
}

SnapshotJob::~SnapshotJob() {
  cancel();
  relief_.reset();
  thread_.reset();
}

void SnapshotJob::cancel() noexcept {
  feed_.give_up(Code::kCancelled);
  const std::lock_guard lock(mutex_);
  is_cancelled_.notify_all();
}

void SnapshotJob::wait(uint64_t ns) {
  std::unique_lock lock(mutex_);
  if (feed_.code() != Code::kOk) return;
  is_cancelled_.wait_for(lock, std::chrono::nanoseconds(ns));
}

bool SnapshotJob::poll() noexcept {
  if (!relief_ && needs_relief()) {
    auto started = start_thread({.niceness = kNiceness}, &SnapshotJob::relieve);
    if (started) relief_ = std::move(*started);
  }
  const bool is_more = feed_.poll();
  return is_more || !ended();
}

bool SnapshotJob::needs_relief() const noexcept {
  if (options_.bytes_per_second == 0 || ended()) return false;
  if (feed_.is_urgent()) return true;
  const double due_s =
      static_cast<double>(run_.progress().bytes) / static_cast<double>(options_.bytes_per_second);
  return parts_.clock.now_ns() - began_ns_ > static_cast<uint64_t>(due_s * 1e9) + kBehindMax_ns;
}

int SnapshotJob::begin_work() {
  if (const Reported<> begun = begin_file(); !begun) {
    end(report(begun.error()));
    return 0;
  }
  return work(options_.bytes_per_second == 0 ? nullptr : &is_relieved_);
}

int SnapshotJob::work(const std::atomic<bool>* is_relieved) {
  if (const std::optional<Code> code = run_.run(is_relieved)) end(end_file(*code));
  return 0;
}

int SnapshotJob::relieve() {
  is_relieved_.store(true, std::memory_order_relaxed);
  thread_.reset();
  return ended() ? 0 : work(nullptr);
}

void SnapshotJob::end(Reported<storage::SnapshotTotals> outcome) noexcept {
  outcome_ = std::move(outcome);
  // What a failure has left goes now.
  file_.reset();
  if (!outcome_) feed_.give_up(outcome_.error().code);
  const std::function<void()> on_end = options_.on_end;
  has_ended_.store(true, std::memory_order_release);
  if (on_end) on_end();
}

Reported<> SnapshotJob::begin_file() {
  const kv::SnapshotFeed::Moment& moment = feed_.moment();
  auto file = storage::SnapshotWriter::create(parts_.disk,
                                              {.store = parts_.store,
                                               .shard_index = moment.shard_index,
                                               .shard_count = moment.shard_count,
                                               .hash_seed = moment.hash_seed,
                                               .stamp = moment.stamp,
                                               .wall_ns = moment.wall_ns,
                                               .entries_max = moment.entries},
                                              {});
  if (!file) return report(file.error());
  file_ = std::move(*file);
  return {};
}

Reported<> SnapshotJob::write_hosted() {
  for (const std::vector<std::byte>& payload : hosted_) {
    if (auto written = file_->write(static_cast<uint64_t>(kv::SnapshotBlockKind::kHosted), 0, payload);
        !written) {
      return written;
    }
  }
  return {};
}

Reported<storage::SnapshotTotals> SnapshotJob::end_file(Code code) {
  if (code == Code::kOk) {
    if (auto written = write_hosted(); !written) return report(std::move(written).error());
    auto totals = file_->finish();
    if (totals && options_.replaces) remove_older();
    return totals;
  }
  if (disk_failure_) return report(*disk_failure_);
  std::string why;
  switch (code) {
    case Code::kNoSpace:
      why = "the node's memory was full, and a write went first";
      break;
    case Code::kOverloaded:
      why = "entries changed faster than they could be written down";
      break;
    case Code::kCancelled:
      why = "it was cancelled";
      break;
    default:
      why = info(code).sentence;
  }
  return report(code, fmt::format("no snapshot of shard {} was made: {}", moment().shard_index, why));
}

// One is enough, and this one is on the disk. What cannot be removed now is removed behind the next one.
void SnapshotJob::remove_older() {
  const kv::SnapshotFeed::Moment& moment = feed_.moment();
  const auto all = storage::list_snapshots(parts_.disk);
  if (!all) return;
  for (const storage::SnapshotName& each : *all) {
    if (each.shard_index != moment.shard_index || each.stamp >= moment.stamp) continue;
    (void)parts_.disk.remove(each.name);
  }
}

}  // namespace refract::node
