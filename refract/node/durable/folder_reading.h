// SPDX-License-Identifier: Apache-2.0
// Reads everything in a data folder, without a node and without changing anything: what each file has, what
// in it is damaged, what was lost by that, and whether a start would serve the store.
//
// Control path; blocks; takes as long as reading all files once, or twice where the log is damaged.
// Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/report.h"
#include "refract/node/durable/snapshot_entries.h"
#include "refract/storage/disk.h"
#include "refract/storage/log/log_reader.h"
#include "refract/storage/log/segment.h"
#include "refract/storage/store_folder.h"

namespace refract::node {

// A part of a file that did not verify, or a file that should be there.
struct FileDamage {
  std::string path = {};
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::string what = {};
  std::string lost = {};  // "at most 2 changes, with versions from 12 to 13"; empty: nothing.

  // "/folder/log-...: 120 bytes at offset 4608: the checksum does not match; lost: ..."
  [[nodiscard]] std::string to_string() const;
};

struct FileReading {
  enum class Kind : uint8_t { kStore, kSnapshot, kSegment, kRing, kSpare, kUnfinished };
  Kind kind = Kind::kStore;
  std::string name = {};
  uint32_t shard = 0;
  uint64_t bytes = 0;
  uint64_t entries = 0;  // Of a snapshot; of a log: records.
  uint64_t first_stamp = 0;
  uint64_t last_stamp = 0;
  uint64_t wall_ns = 0;  // Of a snapshot: its moment, in the store's time.
  std::vector<FileDamage> damages = {};
  std::string note = {};  // "torn by a crash: ..."; empty: nothing else to say.
};
// "snapshot", for tables.
[[nodiscard]] std::string_view text(FileReading::Kind kind) noexcept;

struct FolderReading {
  std::optional<storage::StoreFacts> facts;  // Nothing: the page "store" is not there, or damaged.
  bool is_in_use = false;                    // A node has the folder: only its snapshots were looked at.
  std::vector<FileReading> files;
  std::optional<Report> refusal;  // Why a start would serve nothing of it; nothing: it would serve the store.

  [[nodiscard]] uint64_t damage_count() const noexcept;
};

struct FolderReadingOptions {
  std::function<void(uint64_t bytes)> on_progress = {};  // So many more were read. May be empty.
};

// kNotFound: there is no store in the folder. What is damaged is no error: it stands in what is returned.
[[nodiscard]] Reported<FolderReading> read_folder(storage::Disk& disk, const FolderReadingOptions& options);

// One file of a folder, by itself. kMalformed: it is none of a store's.
[[nodiscard]] Reported<FileReading> read_one_file(storage::Disk& disk, const std::string& name,
                                                  const FolderReadingOptions& options);

// --- For those who read a store's files to the same end. ---

// What the page "store" says; where that is damaged, what the headers of the other files do: the time is
// nothing then, and hash seed and number of shards may be guesses. kNotFound: there is no store.
struct FoundFacts {
  storage::StoreFacts facts;
  std::optional<Report> page_damage;
};
[[nodiscard]] Reported<FoundFacts> find_facts(storage::Disk& disk);

// The lock of the folder, where it has one: nothing otherwise, as from a copy, or where it may only be read.
// kInUse: a node has it.
[[nodiscard]] Reported<std::unique_ptr<storage::Lock>> lock_folder(storage::Disk& disk);

struct ShardLogRequest {
  storage::Disk& disk;
  storage::LogId log_id;
  storage::RingUse rings = {};  // As the page has it.
};
// Where the ring lies that a node which was killed has left; empty: there is none that counts.
[[nodiscard]] std::string ring_path(const ShardLogRequest& request);
// The log with what its ring still has. kCorrupt: that is damaged, or gone.
[[nodiscard]] Reported<storage::LogReading> read_shard_log(
    const ShardLogRequest& request, const storage::LogReadOptions& options,
    const std::function<void(const storage::Record&)>& on_record);

[[nodiscard]] FileDamage damage_of(const storage::LogDamage& damage);
[[nodiscard]] std::vector<FileDamage> damages_of(const storage::Disk& disk, std::string_view name,
                                                 const SnapshotReading& reading);

}  // namespace refract::node
