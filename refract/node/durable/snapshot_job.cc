// SPDX-License-Identifier: Apache-2.0
#include "refract/node/durable/snapshot_job.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "refract/base/units.h"

namespace refract::node {
namespace {

// No caller waits for it, but clients may for a shard whose CPU it has.
constexpr int kNiceness = 10;
// How much later than its pace has it.
constexpr uint64_t kBehindMax_ns = 2 * kSecond_ns;
// They sync each second.
constexpr uint64_t kLookAtOthers_ns = 10 * kMillisecond_ns;

}  // namespace

Code SnapshotJob::write(const storage::SnapshotReader::Block& block) {
  const Reported<> written = file_->write(block.kind, block.entries, block.payload);
  if (written) return Code::kOk;
  disk_failure_ = written.error();
  return written.error().code;
}

SnapshotJob::SnapshotJob(const Parts& parts, const Options& options)
    : parts_(parts),
      options_(options),
      began_ns_(parts.clock.now_ns()),
      contents_(parts.begin({.clock = parts.clock,
                             .write = [this](const auto& block) { return write(block); },
                             .bytes_per_second = options.bytes_per_second,
                             .wait = [this](uint64_t ns) { wait(ns); }})),
      facts_(contents_->facts()),
      hosted_(parts.hosted == nullptr ? std::vector<std::vector<std::byte>>() : parts.hosted->snapshot()),
      others_(parts.stands == nullptr ? std::vector<storage::LogStand>() : parts.stands->all()) {
  facts_.store = parts.store;
  facts_.log_position = options.log_position;
}

Reported<std::unique_ptr<SnapshotJob>> SnapshotJob::start(const Parts& parts, const Options& options) {
  std::unique_ptr<SnapshotJob> job(new SnapshotJob(parts, options));
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
  options.name = fmt::format("refract-snap-{}", facts_.shard_index);
  options.on_end = [](int) {};
  return runtime::ShardThread::start(std::move(options), [this, body] { return (this->*body)(); });
}

SnapshotJob::~SnapshotJob() {
  cancel();
  relief_.reset();
  thread_.reset();
}

void SnapshotJob::cancel() noexcept {
  contents_->give_up(Code::kCancelled);
  const std::lock_guard lock(mutex_);
  is_cancelled_.notify_all();
}

void SnapshotJob::wait(uint64_t ns) {
  std::unique_lock lock(mutex_);
  if (contents_->code() != Code::kOk) return;
  is_cancelled_.wait_for(lock, std::chrono::nanoseconds(ns));
}

bool SnapshotJob::poll() noexcept {
  if (!relief_ && needs_relief()) {
    auto started = start_thread({.niceness = kNiceness}, &SnapshotJob::relieve);
    if (started) relief_ = std::move(*started);
  }
  const bool is_more = contents_->poll();
  return is_more || !ended();
}

bool SnapshotJob::needs_relief() const noexcept {
  if (options_.bytes_per_second == 0 || ended()) return false;
  if (contents_->is_urgent()) return true;
  const double due_s =
      static_cast<double>(contents_->progress().bytes) / static_cast<double>(options_.bytes_per_second);
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
  if (const std::optional<Code> code = contents_->run(is_relieved)) end(end_file(*code));
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
  if (!outcome_) contents_->give_up(outcome_.error().code);
  has_ended_.store(true, std::memory_order_release);
}

Reported<> SnapshotJob::begin_file() {
  auto file = storage::SnapshotWriter::create(parts_.disk, facts_, {});
  if (!file) return report(file.error());
  file_ = std::move(*file);
  return {};
}

Reported<> SnapshotJob::write_hosted() {
  for (const std::vector<std::byte>& payload : hosted_) {
    if (auto written = file_->write(storage::kSnapshotHosted, 0, payload); !written) return written;
  }
  return {};
}

// It has all of a transaction that this shard has of it, and no start can take that away again: so no other
// shard may lose its own.
void SnapshotJob::wait_for_others() {
  if (parts_.stands == nullptr) return;
  const uint64_t begun_ns = parts_.clock.now_ns();
  while (contents_->code() == Code::kOk) {
    const LogStands::Verdict verdict = parts_.stands->judge({.shard = facts_.shard_index,
                                                             .log_position = facts_.log_position,
                                                             .stands = others_,
                                                             .waited_ns = parts_.clock.now_ns() - begun_ns});
    if (verdict == LogStands::Verdict::kIsUseless) contents_->give_up(Code::kReadOnly);
    if (verdict == LogStands::Verdict::kCounts) break;
    wait(kLookAtOthers_ns);
  }
  parts_.stands->end_wait(facts_.shard_index);
}

Reported<storage::SnapshotTotals> SnapshotJob::end_file(Code code) {
  if (code == Code::kOk) {
    if (auto written = write_hosted(); !written) return report(std::move(written).error());
    wait_for_others();
    if (const Code given_up = contents_->code(); given_up != Code::kOk) return end_file(given_up);
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
    case Code::kReadOnly:
      why = "the log has failed since its moment, and needs a later one";
      break;
    case Code::kCancelled:
      why = "it was cancelled";
      break;
    default:
      why = info(code).sentence;
  }
  return report(code, fmt::format("no snapshot of shard {} was made: {}", facts_.shard_index, why));
}

// One is enough, and this one is on the disk. What cannot be removed now is removed behind the next one.
void SnapshotJob::remove_older() {
  const auto all = storage::list_snapshots(parts_.disk);
  if (!all) return;
  for (const storage::SnapshotName& each : *all) {
    if (each.shard_index != facts_.shard_index || each.stamp >= facts_.stamp) continue;
    (void)parts_.disk.remove(each.name);
  }
}

}  // namespace refract::node
