// SPDX-License-Identifier: Apache-2.0
// Fills a shard's empty memory from its disk: the youngest snapshot, then what the log has behind it.
//
// Threads: the shard's, before it serves. Blocks; says how far it is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/report.h"
#include "refract/memory/heap.h"
#include "refract/node/durable/fill_together.h"
#include "refract/node/durable/hosted_keeping.h"
#include "refract/storage/disk.h"
#include "refract/storage/log/shard_log.h"
#include "refract/storage/snapshot/snapshot_file.h"

namespace refract::node {

struct FillParts {
  storage::Disk& disk;
  storage::ShardLog& log;  // Opened, not begun.
  storage::LogId log_id;
  StoreFilling& filling;  // Of the first row; it grows by the same.
  Heap& heap;
  const Grow& grow;
  // So many bytes are still to be read: asks for memory that they will need, and does not wait for it.
  std::function<void(uint64_t)> grow_ahead = {};
  std::string name;  // For the log: "shard 2: ".
  const HostedKeeping& hosted;
  FillTogether* together = nullptr;  // With the other shards of the node; null: there are none.
};

struct Filled {
  storage::LogReading reading;  // What the log is to begin behind.
  // What this log had left open, for the log to be told; and whether any shard's had something, or was cut.
  std::vector<storage::LogParts::Settled> settled = {};
  bool any_settled = false;
};
// kCorrupt: damage, with place and extent; kNoSpace: the memory is too small for what the disk has.
[[nodiscard]] Reported<Filled> fill_shard(const FillParts& parts);

// Whether a log that was read behind a snapshot with this stamp (0: there is none) may be served: kCorrupt,
// and why not. `name`: as in FillParts.
[[nodiscard]] Reported<> may_serve(const storage::Disk& disk, const std::string& name,
                                   const storage::LogReading& reading, uint64_t snapshot_stamp);

// Whether a snapshot's file is what its place in this folder says; kCorrupt, and why not.
[[nodiscard]] Reported<> is_at_its_place(const storage::Disk& disk, const storage::LogId& log_id,
                                         std::string_view name, const storage::SnapshotFacts& facts);

// What to do about damage in the folder of this disk; for sentences.
[[nodiscard]] std::string salvage_advice(const storage::Disk& disk);

}  // namespace refract::node
