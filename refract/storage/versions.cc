// SPDX-License-Identifier: Apache-2.0
// The versions of the files. Apart from everything else, so that a test can link a program of another version
// (docs/design/031-upgrade.md).
#include "refract/storage/log/segment.h"
#include "refract/storage/ring/ring.h"
#include "refract/storage/snapshot/snapshot_file.h"
#include "refract/storage/store_folder.h"

namespace refract::storage {

const uint32_t kRingVersion = 3;
const uint32_t kSegmentVersion = 2;
const uint32_t kSnapshotVersion = 2;
const uint32_t kStoreVersion = 3;

}  // namespace refract::storage
