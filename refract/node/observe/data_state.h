// SPDX-License-Identifier: Apache-2.0
// What a shard keeps beyond its memory, and how that goes: the log, the snapshots, and what was found at the
// start. A part of ShardState, told and read as that is.
//
// Times are ages at the moment of the telling, in nanoseconds; counts are since the server's start.
#pragma once

#include <cstdint>
#include <string>

#include "refract/documents/value.h"

namespace refract::observe {

struct LogStatus {
  std::string state = {};       // "running"; "stalled": the disk has no room; "failed": a write or sync did.
  std::string trouble = {};     // Why it is not running.
  uint64_t unsynced_bytes = 0;  // Appended, and not yet confirmed by fdatasync.
  uint64_t syncs = 0;
  uint64_t last_sync_age_ns = 0;  // Means nothing where there was none.
  uint64_t disk_bytes = 0;
  uint64_t since_snapshot_bytes = 0;  // What a start would read behind the snapshot.
  uint64_t refused_writes = 0;        // With read_only.
};

// Attempts are numbered from 1, and one runs at a time.
struct SnapshotStatus {
  uint64_t begun = 0;
  uint64_t ended = 0;
  // Of the one that is being written, if begun > ended.
  uint64_t entries_now = 0;
  uint64_t entries_max = 0;  // What it may have, about.
  uint64_t bytes_now = 0;
  // The youngest on the disk. No file: there is none. Attempt 0: it is of an earlier server.
  std::string file = {};
  uint64_t written_attempt = 0;
  uint64_t entries = 0;
  uint64_t bytes = 0;
  uint64_t took_ns = 0;
  uint64_t age_ns = 0;
  // The last that failed; attempt 0: none did.
  uint64_t failed_attempt = 0;
  uint64_t failed_age_ns = 0;
  std::string failed_why = {};
  std::string failed_next = {};  // What to do.
};

struct RecoveryStatus {
  std::string source = {};  // "nothing": the store is new; "memory"; "disk": snapshot and log.
  uint64_t entries = 0;
  uint64_t records = 0;        // Changes of the log that were applied.
  uint64_t torn_position = 0;  // Where the log's torn end was cut; 0: nowhere.
  uint64_t took_ns = 0;
};

struct DataState {
  std::string durability = {};  // "none", "everysec", "always"; empty: the node's version does not say.
  std::string backing = {};     // What the memory lies in: "memfd:", "file:/srv/refract".
  std::string folder = {};      // Empty: nothing is kept on disk.
  std::string ring = {};        // "folder"; "memory": everysec promises less. Empty: the node does not say.
  LogStatus log = {};
  SnapshotStatus snapshots = {};
  RecoveryStatus recovery = {};
};

[[nodiscard]] documents::Value json_of(const DataState& state);
// Of hostile text: what is not there is 0 or empty.
[[nodiscard]] DataState data_state_of(const documents::Value& object);

}  // namespace refract::observe
