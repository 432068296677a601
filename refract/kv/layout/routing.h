// SPDX-License-Identifier: Apache-2.0
// Which shard of a node owns a key. All shards of a node hash with the same seed, so that a client computes
// the hash once: for the shard, the bucket and the fingerprint.
#pragma once

#include <cstdint>

namespace refract::kv {

// From bits 16 to 47 of the hash: the fingerprint is above them, and the bucket's index mostly below, so that
// a shard's own keys still spread over all its buckets. REQUIRES: shards > 0.
[[nodiscard]] constexpr uint32_t shard_of(uint64_t hash, uint32_t shards) noexcept {
  return static_cast<uint32_t>(((hash >> 16 & 0xffff'ffff) * shards) >> 32);
}

}  // namespace refract::kv
