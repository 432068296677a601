// SPDX-License-Identifier: Apache-2.0
// Which shard of a node owns a key: the rule of client, owner and whatever looks at a node from outside.
//
// Both rules are for ever: what is stored depends on them. The tests pin them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "refract/cluster/placement.h"
#include "refract/cluster/slot.h"

namespace refract::kv {

// How a store's keys are shared out. Fixed when the store is made.
struct KeyRouting {
  uint32_t shards = 1;
  // kv.copies. 0: by the key's hash, so that a client hashes it once for shard, bucket and fingerprint.
  // Others: by its slot, so that keys with one tag are in one shard.
  uint32_t copies = 0;
  // Of a node that has some of the slots. Null: it has all. Outlives the routing.
  const cluster::SlotSet* slots = nullptr;

  [[nodiscard]] constexpr bool is_by_slot() const noexcept { return copies != 0; }

  // The hash is with the node's seed. REQUIRES: shards > 0.
  [[nodiscard]] uint32_t shard_of(std::span<const std::byte> key, uint64_t hash) const noexcept {
    return is_by_slot() ? shard_of_slot(cluster::slot_of(key), shards) : shard_of_hash(hash, shards);
  }

  // Whether this shard of the node has the key.
  [[nodiscard]] bool is_at(uint32_t shard, std::span<const std::byte> key, uint64_t hash) const noexcept {
    if (shards == 1 && slots == nullptr) return true;
    if (!is_by_slot()) return shard_of_hash(hash, shards) == shard;
    const uint16_t slot = cluster::slot_of(key);
    return shard_of_slot(slot, shards) == shard && (slots == nullptr || (*slots)[slot]);
  }

  // The parts of it, for callers that have looked at is_by_slot() before.

  // From bits 16 to 47 of the hash: the fingerprint is above them, and the bucket's index mostly below, so
  // that a shard's own keys still spread over all its buckets.
  [[nodiscard]] static constexpr uint32_t shard_of_hash(uint64_t hash, uint32_t shards) noexcept {
    return static_cast<uint32_t>(((hash >> 16 & 0xffff'ffff) * shards) >> 32);
  }
  // A shard has a range of slots; where there are no more shards than slots, each has some.
  [[nodiscard]] static constexpr uint32_t shard_of_slot(uint32_t slot, uint32_t shards) noexcept {
    return slot * shards / cluster::kSlots;
  }
};

}  // namespace refract::kv
