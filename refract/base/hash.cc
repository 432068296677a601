// SPDX-License-Identifier: Apache-2.0
#include "refract/base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace refract {

uint64_t hash_key(std::span<const std::byte> key, uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(key.data(), key.size(), seed);
}

}  // namespace refract
