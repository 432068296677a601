// SPDX-License-Identifier: Apache-2.0
// What a snapshot says of itself, by its header and footer alone: for commands that show it. Whether the
// blocks between are sound is not looked at (SnapshotReader).
//
// Threads: any. Two short reads.
#pragma once

#include <string_view>

#include "refract/base/report.h"
#include "refract/storage/disk.h"
#include "refract/storage/snapshot/snapshot_file.h"

namespace refract::storage {

struct SnapshotGlance {
  SnapshotFacts facts;
  SnapshotTotals totals;
};

// kCorrupt: header or footer are not those of a whole snapshot of this version.
[[nodiscard]] Reported<SnapshotGlance> glance_at_snapshot(Disk& disk, std::string_view name);

}  // namespace refract::storage
