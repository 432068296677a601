// SPDX-License-Identifier: Apache-2.0
// Puts what a snapshot and a log tell into a table that was just formatted, after the memory was lost: every
// entry gets the stamp, the expiry and the identity that it had, so that versions stay what they were.
//
//   Replay replay(table, heap);
//   replay.expect(entries_of_the_snapshot);
//   for (batch of changes: snapshot first, then the log's records) {
//     size_t taken = 0;
//     while ((taken += replay.apply(batch.subspan(taken))) < batch.size()) add memory, or give up;
//   }
//   const uint64_t first = replay.finish();
//   write `first` where the next replay finds it (know_stamp), and sync it;
//   table.log_to(&log);
//
// Changes of one key must come in the order of their stamps; one that is not younger than what stands there
// changes nothing, so that a log may begin before its snapshot's moment. Entries whose time has come are left
// out, and take away what they had replaced. The cache misses of a batch overlap: hand over hundreds.
//
// Threads: the one that owns the table. Blocks for nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/table/table.h"
#include "refract/memory/heap.h"

namespace refract::kv {

class Replay {
 public:
  // How far stamps continue above the highest one that is known. A crash of the host can have lost
  // changes that readers had seen; their stamps must not come back with other contents. No node makes so many
  // changes that no disk has confirmed.
  static constexpr uint64_t kStampsLostMax = uint64_t{1} << 32;

  struct Stats {
    uint64_t changes = 0;
    uint64_t without_effect = 0;  // Among them: erasures of nothing, and those that were not younger.
    uint64_t highest_stamp = 0;
  };

  // Both outlive the replay. REQUIRES: the table is empty, and its changes are told to no log and no reader.
  Replay(Table& table, Heap& heap) noexcept : table_(table), heap_(heap) {}

  // So many entries will come, or more: the table has its size before they do.
  void expect(uint64_t entries) { table_.expect(entries); }
  // Returns how many of them, from the first on, were taken; fewer: the memory is full.
  [[nodiscard]] size_t apply(std::span<const ChangeLog::Change> changes);
  // A stamp that may have been given, though no record here has it: where the log says with which stamps its
  // node began, as finish() returned it.
  void know_stamp(uint64_t stamp) noexcept;
  // Before the first new change: the lowest stamp that one can have from now on, far above all these. It must
  // be on disk before any client is served: else a host that dies twice, and has confirmed nothing in
  // between, would give the stamps in between again.
  uint64_t finish();

  [[nodiscard]] const Stats& stats() const noexcept { return stats_; }

 private:
  Table& table_;
  Heap& heap_;
  Stats stats_;
};

}  // namespace refract::kv
