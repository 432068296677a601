// SPDX-License-Identifier: Apache-2.0
// Fills a shard's empty memory from its disk: the youngest snapshot, then what the log has behind it.
//
// Threads: the shard's, before it serves. Blocks; says how far it is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "refract/base/report.h"
#include "refract/kv/change_log.h"
#include "refract/kv/table.h"
#include "refract/memory/heap.h"
#include "refract/storage/disk.h"
#include "refract/storage/shard_log.h"

namespace refract::node {

struct FillParts {
  storage::Disk& disk;
  storage::ShardLog& log;  // Opened, not begun.
  storage::LogId log_id;
  kv::Table& table;  // Empty.
  Heap& heap;
  // Gets the heap room for a value of so many bytes; false: there is none.
  const std::function<bool(uint64_t)>& grow;
  std::string name;  // For the log: "shard 2: ".
};

// Returns what the log is to begin behind. kCorrupt: damage, with place and extent; kNoSpace: the memory is
// too small for what the disk has.
[[nodiscard]] Reported<storage::LogReading> fill_shard(const FillParts& parts);

// A record's change; its spans are the record's.
[[nodiscard]] kv::ChangeLog::Change change_of(const storage::Record& record) noexcept;

}  // namespace refract::node
