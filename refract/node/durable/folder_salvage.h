// SPDX-License-Identifier: Apache-2.0
// Makes a new store of another one's files: of a whole data folder, of a damaged one as far as it verifies,
// or of snapshots that were brought from elsewhere. The new store has an id of its own, the same entries with
// the same versions, expiry and identities, and one snapshot for each shard; its versions go on above the old
// ones.
//
// What is taken from a damaged folder: the youngest snapshot of each shard, as far as its blocks verify, or
// an older one that is whole where the log has everything behind it; then each record of the log that
// verifies, in their order. So an entry may come out older than it was, where a later change of it was lost:
// that is said, with place and extent. An older snapshot that no log follows is not used: it would bring back
// what was erased since.
//
// The source is never changed. Control path; blocks. Memory: the largest shard's entries. Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/report.h"
#include "refract/node/durable/folder_reading.h"
#include "refract/storage/disk.h"

namespace refract::node {

struct SalvageOptions {
  bool salvages = false;  // Without it, damage anywhere that a start would refuse is refused here as well.
  std::function<void(uint64_t bytes)> on_progress = {};
  const Clock* clock = nullptr;  // Null: the host's.
};

struct Salvaged {
  storage::StoreFacts facts;  // Of the new store.
  uint64_t entries = 0;
  uint64_t bytes = 0;                // Of the new snapshots.
  uint64_t changes = 0;              // Of the log that were applied.
  std::vector<FileDamage> left_out;  // In the order of shards; nothing, unless it salvages.
  std::vector<std::string> notes;    // What else is to know: "shard 0: later changes of the same keys ..."
};

// From a data folder. kInUse: a node has it. kCorrupt: damaged, and not to be salvaged.
[[nodiscard]] Reported<Salvaged> salvage_folder(storage::Disk& from, storage::Disk& to,
                                                const SalvageOptions& options);

// From one snapshot of each shard of a store. kInvalidArgument: they are not of one store, or a shard is
// missing, and it does not salvage.
struct SnapshotSourceFile {
  storage::Disk& disk;
  std::string name;
};
[[nodiscard]] Reported<Salvaged> salvage_snapshots(const std::vector<SnapshotSourceFile>& files,
                                                   storage::Disk& to, const SalvageOptions& options);

}  // namespace refract::node
