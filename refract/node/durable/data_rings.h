// SPDX-License-Identifier: Apache-2.0
// The rings of a node's logs (storage/ring/ring_file.h), as its keeper holds them: found, made, and put back
// where they belong while the node runs. Servers inherit them; so a ring whose name is gone is no less a
// ring.
//
// Threads: the keeper's; of a server, any that calls a const function.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "refract/base/report.h"
#include "refract/memory/host/descriptor.h"
#include "refract/memory/space.h"
#include "refract/node/config/config.h"
#include "refract/storage/ring/ring_file.h"
#include "refract/storage/store_folder.h"

namespace refract::node {

class DataRings {
 public:
  // Takes up the rings that the last node left in use, or makes some; then the page says so, and what time it
  // is. A ring that was in use and is gone is named: refused, where changes may be lost that were
  // acknowledged. kInUse: another process has them.
  [[nodiscard]] static Reported<DataRings> open(const NodeConfig& config, storage::StoreFolder& folder,
                                                const SpaceTime& time);

  [[nodiscard]] const storage::RingFile& of(uint32_t shard) const noexcept { return files_[shard]; }
  [[nodiscard]] const storage::RingUse& use() const noexcept { return use_; }

  // Readable when a ring may have lost its name; -1: this system does not tell.
  [[nodiscard]] int descriptor() const noexcept { return events_.get(); }
  // Reads those events, and looks: whether a name is missing.
  [[nodiscard]] bool has_lost_names();

  // Rings in the place of those whose names are missing, still without name and content. What is prepared and
  // not used again is removed by the next one. kNotFound: the folder is gone, or has no page any more.
  using Prepared = std::vector<storage::RingFile>;
  [[nodiscard]] Reported<Prepared> prepare() const;
  // They take content and names over. REQUIRES: no server runs. After an error the rings are as they were.
  [[nodiscard]] Reported<> replace(Prepared prepared);

  // Before a server is started: a ring that was cut or written over is replaced by one that has lost what it
  // held, and says so. Whether there was any.
  [[nodiscard]] Reported<bool> replace_damaged();
  // A server has died because its file system refused a store: from now on the rings lie in memory.
  [[nodiscard]] Reported<> move_to_memory(storage::StoreFolder& folder);

 private:
  DataRings() = default;
  [[nodiscard]] Reported<> take_up(const storage::StoreFacts& facts);
  [[nodiscard]] Reported<> make(const NodeConfig& config, const storage::StoreFacts& facts);
  [[nodiscard]] storage::RingIdentity identity(const storage::StoreFacts& facts, uint32_t shard) const;
  void watch(const storage::RingFile& file) const noexcept;

  storage::RingFolder folder_;
  std::vector<storage::RingFile> files_;
  storage::RingUse use_ = {};
  Descriptor events_;
};

}  // namespace refract::node
