// SPDX-License-Identifier: Apache-2.0
// Fills a shard's table, which was just formatted, from a snapshot's file. A thread beside reads and verifies
// blocks while the caller puts the ones before into the table.
//
// A damaged file is not taken at all (snapshot_entries.h reads what is left of one). When it fails the table
// holds a part of the snapshot, and must not be served: format it again.
//
// Control path; blocks. Threads: the caller is the one that owns the table.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "refract/base/report.h"
#include "refract/kv/owner/table/replay.h"
#include "refract/storage/snapshot/snapshot_file.h"

namespace refract::node {

struct RestoreProgress {
  uint64_t entries = 0;
  uint64_t bytes = 0;
  uint64_t bytes_total = 0;
};

struct RestoreOptions {
  // Before the first entry: the table will take so many bytes of the heap, if it has them then; where it has
  // not, it grows with the entries, which takes longer.
  std::function<void(uint64_t bytes)> before_table = {};
  // The heap is full: true, once it was given more. None: then it fails.
  std::function<bool()> more_memory = {};
  std::function<void(const RestoreProgress&)> on_progress = {};  // After each block.
  // Takes a block of another store than the table. None: there is no such store here.
  std::function<Reported<>(std::span<const std::byte> payload)> on_hosted = {};
};

struct Restored {
  storage::SnapshotFacts facts;
  uint64_t entries = 0;
};

// The caller continues with the log's records above facts.stamp, through the same replay, then finish()es
// it. Whether the file is of this store and shard, the caller says: `accepts` is asked first, and what it
// reports is handed on.
[[nodiscard]] Reported<Restored> restore_snapshot(
    storage::Disk& disk, std::string_view name, kv::Replay& replay, const RestoreOptions& options,
    const std::function<Reported<>(const storage::SnapshotFacts&)>& accepts = {});

}  // namespace refract::node
