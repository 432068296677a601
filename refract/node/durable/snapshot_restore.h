// SPDX-License-Identifier: Apache-2.0
// Fills a shard's memory, which was just formatted, from a snapshot's file. A thread beside reads and
// verifies blocks while the caller puts the ones before into the store.
//
// A damaged file is not taken at all (snapshot_entries.h reads what is left of one). When it fails the store
// holds a part of the snapshot, and must not be served: format it again.
//
// Control path; blocks. Threads: the caller is the shard's.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "refract/base/report.h"
#include "refract/node/hosted/store_contents.h"
#include "refract/storage/snapshot/snapshot_file.h"

namespace refract::node {

struct RestoreOptions {
  // Whether the file is of this store and shard: asked first, and what it reports is handed on.
  std::function<Reported<>(const storage::SnapshotFacts&)> accepts = {};
  std::function<void(uint64_t bytes, uint64_t bytes_total)> on_progress = {};  // After each block.
  // Takes a block of a store that is named. None: there is no such store here.
  std::function<Reported<>(std::span<const std::byte> payload)> on_hosted = {};
};

// The caller continues with the log's records above the file's stamp, into the same filling, then finish()es
// it.
[[nodiscard]] Reported<storage::SnapshotFacts> restore_snapshot(storage::Disk& disk, std::string_view name,
                                                                StoreFilling& filling,
                                                                const RestoreOptions& options);

}  // namespace refract::node
