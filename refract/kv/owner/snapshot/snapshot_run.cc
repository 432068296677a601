// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/snapshot/snapshot_run.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "refract/base/check.h"

namespace refract::kv {

SnapshotPace::SnapshotPace(const SnapshotFeed& feed, const Clock& clock, Options options)
    : feed_(feed), clock_(clock), options_(std::move(options)), began_ns_(clock.now_ns()) {
  REFRACT_CHECK(options_.bytes_per_second == 0 || options_.wait);
}

void SnapshotPace::wrote(uint64_t bytes) {
  if (options_.bytes_per_second == 0) return;
  bytes_ += bytes;
  const double due_ns = static_cast<double>(bytes_) * 1e9 / static_cast<double>(options_.bytes_per_second);
  while (!feed_.is_urgent() && feed_.code() == Code::kOk) {
    const double ahead_ns = due_ns - static_cast<double>(clock_.now_ns() - began_ns_);
    if (ahead_ns < 1'000'000) return;
    options_.wait(std::min(static_cast<uint64_t>(ahead_ns), kSleepMaxNs));
  }
  // What was written in a hurry is not waited for afterwards.
  began_ns_ = clock_.now_ns();
  bytes_ = 0;
}

SnapshotRun::SnapshotRun(MappedMemory& memory, SnapshotFeed& feed, SnapshotSink& sink, const Clock& clock,
                         SnapshotPace::Options pace)
    : memory_(memory),
      feed_(feed),
      sink_(sink),
      pace_(feed, clock, std::move(pace)),
      blocks_(*this),
      walk_(memory, feed) {}

std::optional<Code> SnapshotRun::run(const std::atomic<bool>* is_relieved) {
  Code code = Code::kOk;
  uint64_t put_count = 0;
  const auto put = [&](const SnapshotSource& source) {
    // A bucket may have any number of entries.
    if (is_relieved != nullptr && ++put_count % kEntriesPerYield == 0) std::this_thread::yield();
    return blocks_.put(memory_, source);
  };
  while (code == Code::kOk && !walk_.done()) {
    if (is_relieved != nullptr && walk_.counts().buckets % kYieldEvery == 0) {
      if (is_relieved->load(std::memory_order_relaxed)) return std::nullopt;
      std::this_thread::yield();
    }
    code = walk_.next(put);
  }
  if (code == Code::kOk) code = blocks_.flush();
  if (code == Code::kOk) code = feed_.code();
  // The sink's own failure: the shard need not keep anything any longer.
  if (code != Code::kOk) feed_.give_up(code);
  show();
  return code;
}

Code SnapshotRun::write(const SnapshotBlock& block) {
  // What was copied after the moment was given up may be anything.
  load_load_fence();
  if (const Code code = feed_.code(); code != Code::kOk) return code;
  if (const Code code = sink_.write(block); code != Code::kOk) return code;
  bytes_ += block.bytes.size();
  show();
  pace_.wrote(block.bytes.size());
  return Code::kOk;
}

void SnapshotRun::show() noexcept {
  shown_entries_.store(walk_.counts().entries, std::memory_order_relaxed);
  shown_bytes_.store(bytes_, std::memory_order_relaxed);
}

SnapshotRun::Progress SnapshotRun::progress() const noexcept {
  return {.entries = shown_entries_.load(std::memory_order_relaxed),
          .bytes = shown_bytes_.load(std::memory_order_relaxed)};
}

}  // namespace refract::kv
