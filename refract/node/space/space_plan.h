// SPDX-License-Identifier: Apache-2.0
// What the space of a shard is to be: how large, in what, and for which store.
#pragma once

#include <cstdint>

#include "refract/base/result.h"
#include "refract/memory/heap.h"
#include "refract/memory/host/backing.h"
#include "refract/memory/writer.h"
#include "refract/node/config/config.h"

namespace refract::node {

// What the first row of a shard's stores has of a space from its making on.
struct StoreArea {
  uint64_t (*bytes)(uint64_t chunks_max) noexcept;
  Result<> (*format)(Writer& writer, Heap& heap);  // Fails where the heap is too small for an empty store.
};

struct SpacePlan {
  StoreArea area{};
  Backing backing;           // With the shard's number.
  uint32_t shard_count = 1;  // As the header says it: of the shards of keys.
  uint32_t copies = 0;       // Likewise; of a space without keys 0.
  uint64_t placement = 0;    // Likewise.
  uint64_t bytes_initial = 0;
  uint64_t bytes_max = 0;
  bool in_core_dumps = false;
  // Something long may lie across regions, so that the last one need not have room for all of it.
  bool spans_regions = false;
};

// A shard of keys: its share of the node's memory.
[[nodiscard]] SpacePlan plan_key_space(const NodeConfig& config, uint32_t shard, const StoreArea& area);

// That of all objects, behind the shards of keys. Never in files: objects end with the node. It begins small,
// and has room for more than objects.limit: headers, records, and what lies between objects.
[[nodiscard]] SpacePlan plan_object_space(const NodeConfig& config, const StoreArea& area);

}  // namespace refract::node
