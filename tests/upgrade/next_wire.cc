// SPDX-License-Identifier: Apache-2.0
// A version of Refract that speaks one more version of each wire, and whose files are today's: the numbers
// of versions.cc in each layer, which the linker takes from here instead. upgrade_test.py sees to it that
// each is what it says.
#include "refract/fabric/shm/node_page.h"
#include "refract/fabric/shm/wire.h"
#include "refract/fabric/tcp/handshake.h"
#include "refract/fabric/verbs/wire.h"
#include "refract/memory/space.h"
#include "refract/storage/log/segment.h"
#include "refract/storage/ring/ring.h"
#include "refract/storage/snapshot/snapshot_file.h"
#include "refract/storage/store_folder.h"

namespace refract {

const uint32_t kSpaceLayoutVersion = 4;

namespace storage {

const uint32_t kRingVersion = 3;
const uint32_t kSegmentVersion = 2;
const uint32_t kSnapshotVersion = 2;
const uint32_t kStoreVersion = 3;

}  // namespace storage

namespace fabric::shm {

const uint16_t kWireVersionLowest = 1;
const uint16_t kWireVersionHighest = 3;
const uint64_t kNodePageVersion = 5;

}  // namespace fabric::shm

namespace fabric::tcp {

const uint16_t kWireVersion = 4;
const uint16_t kWireVersionOldest = 3;

}  // namespace fabric::tcp

namespace fabric::verbs {

const uint16_t kWireVersion = 3;

}  // namespace fabric::verbs

}  // namespace refract
