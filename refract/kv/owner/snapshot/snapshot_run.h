// SPDX-License-Identifier: Apache-2.0
// The whole of a snapshot's work on its thread: from a moment of the table to blocks in a sink, at a pace,
// with progress that any thread may look at.
//
//   shard:   feed = make_unique<SnapshotFeed>(table, heap, writer, clock, options);   // The moment.
//   thread:  SnapshotRun run(memory, *feed, sink, clock, options);
//            if (*run.run() == Code::kOk) finish the file; else drop it
//   shard:   a timer: feed->poll(); once the thread has ended, until it is false; then destroy the feed
//
// Threads: run() by one at a time; progress() by any; to cancel, feed.give_up(Code::kCancelled) by any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

#include "refract/base/clock.h"
#include "refract/base/result.h"
#include "refract/kv/direct/mapped_memory.h"
#include "refract/kv/owner/snapshot/snapshot_block.h"
#include "refract/kv/owner/snapshot/snapshot_feed.h"
#include "refract/kv/owner/snapshot/snapshot_walk.h"

namespace refract::kv {

// Limits a writer to so many bytes a second, unless the snapshot is urgent or over.
class SnapshotPace {
 public:
  struct Options {
    uint64_t bytes_per_second = 0;               // 0: as fast as it goes.
    std::function<void(uint64_t ns)> wait = {};  // Of the calling thread; needed with a pace.
  };
  SnapshotPace(const SnapshotFeed& feed, const Clock& clock, Options options);

  void wrote(uint64_t bytes);

 private:
  // So that a cancelled snapshot ends soon.
  static constexpr uint64_t kSleepMaxNs = 20'000'000;

  const SnapshotFeed& feed_;
  const Clock& clock_;
  const Options options_;
  uint64_t began_ns_;
  uint64_t bytes_ = 0;
};

class SnapshotRun final : private SnapshotSink {
 public:
  struct Progress {
    uint64_t entries = 0;
    uint64_t bytes = 0;  // Given to the sink.
  };

  // `memory` covers all that the space may ever have. All outlive it.
  SnapshotRun(MappedMemory& memory, SnapshotFeed& feed, SnapshotSink& sink, const Clock& clock,
              SnapshotPace::Options pace = {});

  // kOk: the sink has the whole moment, and no block but sound ones. Else the feed's code, or the sink's.
  // With `is_relieved` it yields its CPU every 0.1 ms or so, and returns nothing once that is true; another
  // call continues from there.
  [[nodiscard]] std::optional<Code> run(const std::atomic<bool>* is_relieved = nullptr);
  [[nodiscard]] Progress progress() const noexcept;

 private:
  // A thread of little weight that wakes on a busy CPU has it until the system's next tick, some
  // milliseconds, unless it yields.
  static constexpr uint64_t kYieldEvery = 64;  // Buckets.
  static constexpr uint64_t kEntriesPerYield = 1'024;

  [[nodiscard]] Code write(const SnapshotBlock& block) override;
  void show() noexcept;

  MappedMemory& memory_;
  SnapshotFeed& feed_;
  SnapshotSink& sink_;
  SnapshotPace pace_;
  SnapshotBlockWriter blocks_;
  SnapshotWalk<MappedMemory> walk_;
  uint64_t bytes_ = 0;

  std::atomic<uint64_t> shown_entries_ = 0;
  std::atomic<uint64_t> shown_bytes_ = 0;
};

}  // namespace refract::kv
