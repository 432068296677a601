// SPDX-License-Identifier: Apache-2.0
// A moment of a table, kept for a thread that writes it down: the shard's half of a snapshot.
//
// Made on the shard's thread, it holds the moment: the entries with stamps below `moment().stamp`. From then
// on the table changes as before, and another thread reads it by itself (snapshot_walk.h). When an entry of
// the moment leaves the table before that thread has passed its place, the buffer is handed over by a queue
// and kept from reuse until it was read. So nothing stops and nothing is copied here; what it costs is the
// memory of what changes meanwhile.
//
//   (S1) An entry of the moment is handed over before the store that takes it from its slot, unless the
//        reader has said before that it has passed the entry's place.
//        One that a transaction over several shards is to replace is taken from its slot when that has
//        happened: until then the slot leads to it by the pending entry (docs/design/067).
//   (S2) What was handed over, and what a slot still named when the reader saw it, keeps its bytes until the
//        reader has taken it from the queue, or the snapshot was given up.
//   (S3) Once given up, it stays so; the reader looks for that after it has read and before it believes.
//
// Threads: the shard's half by the shard that owns the table, the reader's by one other, both at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/result.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/table/table.h"
#include "refract/memory/heap.h"
#include "refract/memory/writer.h"

namespace refract::kv {

class SnapshotFeed : public Departures {
 public:
  struct Options {
    uint64_t handed_max = uint64_t{1} << 20;  // Buffers in the queue; one more, and the snapshot is given up.
    bool gives_way = true;  // Where memory is short it is given up; else writes fail with kNoSpace.
    // Whether transactions over several shards have entries pending from turn to turn, and the stamps of
    // those that are pending now, sorted: what they replace belongs to the moment, and they do not.
    bool has_parts = false;
    std::vector<uint64_t> pending = {};
  };
  // What is the same throughout.
  struct Moment {
    uint64_t stamp = 0;    // No entry has it: those of the moment have lower ones, all later ones higher.
    uint64_t wall_ns = 0;  // What had expired by then is no part of it.
    uint64_t entries = 0;  // At most so many.
    uint64_t hash_seed = 0;
    uint32_t shard_index = 0;
    uint32_t shard_count = 1;
    uint32_t copies = 0;
    uint64_t placement = 0;
  };
  struct Stats {
    uint64_t handed = 0;
    uint64_t kept_bytes = 0;  // Now, in buffers that would be free otherwise.
    uint64_t kept_bytes_max = 0;
  };
  // Trivial, so that the queue's pages stay untouched until an entry is handed over: with 24 MiB to fill, the
  // shard would pause wherever a snapshot begins.
  struct Handed {
    uint64_t buffer_at;
    uint64_t stamp;
    uint64_t bytes;

    [[nodiscard]] Offset buffer() const noexcept { return {buffer_at}; }
  };
  static_assert(std::is_trivially_default_constructible_v<Handed>);

  // Attaches itself to the table. All outlive it. REQUIRES: no other snapshot is under way.
  SnapshotFeed(Table& table, Heap& heap, Writer& writer, const Clock& clock, const Options& options);
  SnapshotFeed(const SnapshotFeed&) = delete;
  SnapshotFeed& operator=(const SnapshotFeed&) = delete;
  // REQUIRES: the reader has ended. What is still kept is retired at once: poll() until false comes before.
  ~SnapshotFeed() override;

  [[nodiscard]] const Moment& moment() const noexcept { return moment_; }
  // Whether an entry with this stamp, which no slot may name any more, is one of the moment.
  [[nodiscard]] bool is_of_moment(uint64_t stamp) const noexcept {
    if (stamp >= moment_.stamp) return false;
    return options_.pending.empty() || !std::ranges::binary_search(options_.pending, stamp);
  }
  [[nodiscard]] bool has_parts() const noexcept { return options_.has_parts; }

  // The shard's half.
  void departing(Slot slot) noexcept override;
  [[nodiscard]] bool keeps(Offset buffer) noexcept override;
  [[nodiscard]] bool gives_way() noexcept override;
  // Gives back some of what has been read; false: nothing is kept any more. For a timer, and once the reader
  // has ended, until it is false.
  bool poll() noexcept;
  [[nodiscard]] const Stats& stats() const noexcept { return stats_; }

  // The reader's half. How many buffers have been handed over so far, and which they are.
  [[nodiscard]] uint64_t handed() const noexcept { return handed_.load(std::memory_order_acquire); }
  [[nodiscard]] const Handed& handed_at(uint64_t index) const noexcept { return queue_[index & mask_]; }
  // The first `count` have been read.
  void take(uint64_t count) noexcept { taken_.store(count, std::memory_order_release); }
  // Every place below `cursor` (scan_cursor.h, without a shard) has been passed; 0 for all.
  void pass(uint64_t cursor) noexcept {
    passed_.store(cursor == 0 ? kAllPassed : cursor, std::memory_order_release);
  }
  // Whether so much is kept that a reader that is slow on purpose should hurry.
  [[nodiscard]] bool is_urgent() const noexcept { return is_urgent_.load(std::memory_order_relaxed); }

  // Any thread. kOk while the moment is kept; else why it is not.
  [[nodiscard]] Code code() const noexcept { return code_.load(std::memory_order_acquire); }
  // Gives it up, unless that was done before. kCancelled is for callers that no longer want it.
  void give_up(Code code) noexcept;

 protected:
  // Whether the entry belongs to the moment and has not been passed.
  [[nodiscard]] virtual bool is_wanted(Slot slot, uint64_t stamp) const noexcept;
  // How many of the queue's buffers, from its beginning, are not needed.
  [[nodiscard]] virtual uint64_t read_count() const noexcept;
  virtual void hand_over(const Handed& handed) noexcept;

 private:
  static constexpr uint64_t kAllPassed = UINT64_MAX;
  // Departed and not yet retired: one, but for chains that replace several entries.
  struct Leaving {
    uint64_t index;
    Offset buffer;
  };

  size_t give_back(size_t count_max) noexcept;

  Table& table_;
  Heap& heap_;
  Writer& writer_;
  const Options options_;
  Moment moment_;
  const uint64_t mask_;
  std::unique_ptr<Handed[]> queue_;
  std::vector<Leaving> leaving_;
  uint64_t given_back_ = 0;  // Buffers that were retired, from the queue's beginning.
  Stats stats_;

  alignas(64) std::atomic<uint64_t> handed_ = 0;
  alignas(64) std::atomic<uint64_t> taken_ = 0;
  std::atomic<uint64_t> passed_ = 0;
  alignas(64) std::atomic<Code> code_ = Code::kOk;
  std::atomic<bool> is_urgent_ = false;
};

}  // namespace refract::kv
