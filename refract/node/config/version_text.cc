// SPDX-License-Identifier: Apache-2.0
// What a program is, and which versions of everything that outlives it or that it says to others.
#include <fmt/format.h>

#include "refract/fabric/shm/node_page.h"
#include "refract/fabric/shm/wire.h"
#include "refract/fabric/tcp/handshake.h"
#include "refract/fabric/verbs/wire.h"
#include "refract/memory/space.h"
#include "refract/node/config/config.h"
#include "refract/prism/operation.h"
#include "refract/storage/log/segment.h"
#include "refract/storage/ring/ring.h"
#include "refract/storage/snapshot/snapshot_file.h"
#include "refract/storage/store_folder.h"

namespace refract::node {
namespace {

std::string range(uint16_t oldest, uint16_t newest) {
  return oldest == newest ? fmt::format("{}", newest) : fmt::format("{} to {}", oldest, newest);
}

}  // namespace

std::string version_text() {
  namespace shm = fabric::shm;
  namespace tcp = fabric::tcp;
  return fmt::format(
      "refractd {}\n"
      "  memory  layout {}\n"
      "  files   store {}, log {}, ring {}, snapshot {}\n"
      "  wires   shm {} (page {}), tcp {}, verbs {}, chains {}\n",
      REFRACT_VERSION, kSpaceLayoutVersion, storage::kStoreVersion, storage::kSegmentVersion,
      storage::kRingVersion, storage::kSnapshotVersion,
      range(shm::kWireVersionLowest, shm::kWireVersionHighest), shm::kNodePageVersion,
      range(tcp::kWireVersionOldest, tcp::kWireVersion), fabric::verbs::kWireVersion,
      range(prism::kChainVersionOldest, prism::kChainVersion));
}

}  // namespace refract::node
