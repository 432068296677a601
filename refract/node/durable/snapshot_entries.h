// SPDX-License-Identifier: Apache-2.0
// Hands out every entry of a snapshot's file that is in a sound block, and says what is not: for tools that
// look at a file, or save what is left of it. A start does not use it: snapshot_restore.h takes a file whole
// or not at all.
//
// Threads: one. Control path; blocks. Memory: a block, or the largest entry.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "refract/base/report.h"
#include "refract/kv/owner/snapshot/snapshot_block.h"
#include "refract/storage/snapshot/snapshot_file.h"

namespace refract::node {

struct SnapshotReading {
  storage::SnapshotFacts facts;
  bool has_header = true;  // False: the header is damaged, and the facts are what the name says.
  uint64_t entries = 0;
  uint64_t file_bytes = 0;
  uint64_t hosted_blocks = 0;  // Of stores beside the table, whose contents only these can read.
  uint64_t first_stamp = 0;    // The lowest and the highest of an entry; 0: there are none.
  uint64_t last_stamp = 0;
  std::vector<storage::SnapshotReader::Damage> damages = {};
  // Entries that are not there; nothing: unknown.
  std::optional<uint64_t> lost = 0;

  [[nodiscard]] bool is_sound() const noexcept { return damages.empty(); }
};

struct SnapshotEntriesOptions {
  // The spans stay until it returns. May be empty.
  std::function<void(const kv::SnapshotEntry&)> on_entry = {};
  // A block of transactions over several shards (storage::LogParts); false: it makes no sense. May be empty.
  std::function<bool(uint64_t kind, std::span<const std::byte> payload)> on_parts = {};
  std::function<void(uint64_t bytes)> on_progress = {};  // So many more were read. May be empty.
};

// kMalformed, kCorrupt: there is nothing in it that can be verified. kUnsupported: of another version.
[[nodiscard]] Reported<SnapshotReading> read_snapshot_entries(storage::Disk& disk, std::string_view name,
                                                              const SnapshotEntriesOptions& options);

}  // namespace refract::node
