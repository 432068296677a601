// SPDX-License-Identifier: Apache-2.0
// Puts a snapshot's blocks into a table that was just formatted, entry by entry with its stamp, expiry and
// identity, through a Replay (replay.h); the log's records go through the same one behind it.
//
//   Replay replay(table, heap);
//   SnapshotLoader loader(replay);
//   replay.expect(entries_max_of_the_file);
//   for each block, in order, once it was verified: loader.load(block)
//   if (!loader.is_complete()) the file lacks pieces
//   replay.know_stamp(stamp_of_the_file);
//
// Fastest where the table has the hash seed of the one that was written down: entries then come in the order
// of its buckets. With any other seed it is right as well.
//
// Threads: the one that owns the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "refract/base/result.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/snapshot/snapshot_block.h"
#include "refract/kv/owner/table/replay.h"

namespace refract::kv {

class SnapshotLoader {
 public:
  explicit SnapshotLoader(Replay& replay) : replay_(replay) { batch_.reserve(kBatch); }

  // kMalformed: these are no blocks of a snapshot, or not in this order; what came before is in the table.
  // kNoSpace: give the heap more memory, then resume(); the block stays until then.
  [[nodiscard]] Result<> load(const SnapshotBlock& block);
  [[nodiscard]] Result<> resume();

  // False where pieces of a large entry are missing at the end.
  [[nodiscard]] bool is_complete() const noexcept { return reader_.is_complete(); }
  [[nodiscard]] uint64_t entries() const noexcept { return entries_; }

 private:
  static constexpr size_t kBatch = 512;

  [[nodiscard]] Result<> apply();

  Replay& replay_;
  SnapshotBlockReader reader_;
  std::vector<ChangeLog::Change> batch_;
  size_t applied_ = 0;  // Of the batch.
  uint64_t entries_ = 0;
};

}  // namespace refract::kv
