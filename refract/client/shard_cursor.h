// SPDX-License-Identifier: Apache-2.0
// A scan's cursor as programs hold it: the shard in the top 8 bits, that shard's own cursor below. A scan
// goes through the shards one after the other; 0 is both the beginning and, when handed back, the end.
#pragma once

#include <cstdint>

#include "refract/kv/layout/scan_cursor.h"

namespace refract::client {

inline constexpr int kShardBits = 10;
static_assert(kv::kCursorShardBits >= kShardBits, "a shard's own cursor leaves our bits alone");

struct ShardCursor {
  // Of all nodes together.
  static constexpr uint32_t kShardsMax = 1U << kShardBits;

  uint32_t shard = 0;
  uint64_t own = 0;

  [[nodiscard]] static constexpr ShardCursor from(uint64_t cursor) noexcept {
    return {.shard = static_cast<uint32_t>(cursor >> (64 - kShardBits)),
            .own = cursor << kShardBits >> kShardBits};
  }
  // What the program gets when this shard's next cursor is `own_next`, of `shards` altogether.
  [[nodiscard]] constexpr uint64_t followed_by(uint64_t own_next, uint32_t shards) const noexcept {
    const uint64_t next_shard = own_next == 0 ? uint64_t{shard} + 1 : shard;
    return next_shard >= shards ? 0 : (next_shard << (64 - kShardBits)) | own_next;
  }
};

}  // namespace refract::client
