// SPDX-License-Identifier: Apache-2.0
// The stores whose changes a shard's log and snapshots have: leads each record, and each block of a snapshot,
// to the store that wrote it (docs/design/046-hosted-stores.md).
//
// Threads: the shard's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refract/base/report.h"
#include "refract/memory/store_name.h"
#include "refract/node/hosted/hosted_store.h"
#include "refract/storage/record.h"

namespace refract::node {

class HostedKeeping {
 public:
  // In the order of the rows. The store outlives it.
  void add(StoreName name, HostedStore& store) { stores_.push_back({name, &store}); }

  // What bears no name is its. REQUIRES: there is one.
  [[nodiscard]] HostedStore& first() const noexcept { return *stores_.front().store; }

  // Of a store that is named. kUnsupported: the node does not host the store. kNoSpace: the memory is too
  // small. kCorrupt: the store cannot read what it should have written.
  [[nodiscard]] Reported<> replay(const storage::Record& record, const Grow& grow) const;
  // Of a block's payload; likewise.
  [[nodiscard]] Reported<> restore(std::span<const std::byte> payload, const Grow& grow) const;
  // The payloads of what all stores have now, each of one block.
  [[nodiscard]] std::vector<std::vector<std::byte>> snapshot() const;

 private:
  struct Row {
    StoreName name;
    HostedStore* store;
  };
  [[nodiscard]] HostedStore* find(StoreName name) const noexcept;

  std::vector<Row> stores_;
};

}  // namespace refract::node
