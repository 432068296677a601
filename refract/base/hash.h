// SPDX-License-Identifier: Apache-2.0
// The one hash of keys: XXH3, 64 bits, seeded. Stored tables depend on it, so its result for given bytes and
// seed never changes; the test pins it.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace refract {

// Inline: a call would cost a get as much as the hash of a short key.
[[nodiscard]] inline uint64_t hash_key(std::span<const std::byte> key, uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(key.data(), key.size(), seed);
}

}  // namespace refract
