// SPDX-License-Identifier: Apache-2.0
// What an operation is for: a key, or a shard of one of the nodes.
#pragma once

#include <cstdint>

#include "refract/kv/layout/hashed_key.h"

namespace refract::client {

// A shard of one of the nodes: nodes are numbered as the list has them, and a node alone is 0. So of a node
// alone it is the shard's number.
struct ShardPlace {
  static constexpr int kShardBits = 8;

  uint32_t node = 0;
  uint32_t shard = 0;

  [[nodiscard]] static constexpr ShardPlace from(uint32_t number) noexcept {
    return {.node = number >> kShardBits, .shard = number & ((1U << kShardBits) - 1)};
  }
  [[nodiscard]] constexpr uint32_t number() const noexcept { return node << kShardBits | shard; }
};

// Whose operation it is: of the shard that owns the key or, where there is none, of this one.
struct KeyOwner {
  kv::HashedKey key;
  uint32_t shard = 0;  // ShardPlace::number().
};

}  // namespace refract::client
