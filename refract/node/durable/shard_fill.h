// SPDX-License-Identifier: Apache-2.0
// Fills a shard's empty memory from its disk: the youngest snapshot, then what the log has behind it.
//
// Threads: the shard's, before it serves. Blocks; says how far it is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "refract/base/report.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/table/table.h"
#include "refract/memory/heap.h"
#include "refract/node/durable/hosted_keeping.h"
#include "refract/storage/disk.h"
#include "refract/storage/log/shard_log.h"
#include "refract/storage/snapshot/snapshot_file.h"

namespace refract::node {

struct FillParts {
  storage::Disk& disk;
  storage::ShardLog& log;  // Opened, not begun.
  storage::LogId log_id;
  kv::Table& table;  // Empty.
  Heap& heap;
  // Gets the heap room for a value of so many bytes; false: there is none.
  const std::function<bool(uint64_t)>& grow;
  // So many bytes are still to be read: asks for memory that they will need, and does not wait for it.
  std::function<void(uint64_t)> grow_ahead = {};
  std::string name;                       // For the log: "shard 2: ".
  const HostedKeeping* hosted = nullptr;  // Stores beside the table; null: there are none.
};

// Returns what the log is to begin behind. kCorrupt: damage, with place and extent; kNoSpace: the memory is
// too small for what the disk has.
[[nodiscard]] Reported<storage::LogReading> fill_shard(const FillParts& parts);

// Whether a log that was read behind a snapshot with this stamp (0: there is none) may be served: kCorrupt,
// and why not. `name`: as in FillParts.
[[nodiscard]] Reported<> may_serve(const storage::Disk& disk, const std::string& name,
                                   const storage::LogReading& reading, uint64_t snapshot_stamp);

// Whether a snapshot's file is what its place in this folder says; kCorrupt, and why not.
[[nodiscard]] Reported<> is_at_its_place(const storage::Disk& disk, const storage::LogId& log_id,
                                         std::string_view name, const storage::SnapshotFacts& facts);

// What to do about damage in the folder of this disk; for sentences.
[[nodiscard]] std::string salvage_advice(const storage::Disk& disk);

// The change of a record of the table (no kHosted one); its spans are the record's.
[[nodiscard]] kv::ChangeLog::Change change_of(const storage::Record& record) noexcept;
// The other way, for the log, with each put; its spans are the change's.
[[nodiscard]] inline storage::ShardLog::Change log_change_of(const kv::ChangeLog::Change& change) noexcept {
  const bool is_put = change.kind == kv::ChangeLog::Kind::kPut;
  return {.kind = is_put ? storage::RecordKind::kPut : storage::RecordKind::kErase,
          .stamp = change.stamp,
          .expires_wall_ns = change.expires_wall_ns,
          .client = change.request.client,
          .sequence = change.request.sequence,
          .key = change.key,
          .value = change.value,
          .buffer = change.buffer.value};
}

}  // namespace refract::node
