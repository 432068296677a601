// SPDX-License-Identifier: Apache-2.0
// The one hash of keys: XXH3, 64 bits, seeded. Stored tables depend on it, so its result for given bytes and
// seed never changes; the test pins it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace refract {

[[nodiscard]] uint64_t hash_key(std::span<const std::byte> key, uint64_t seed) noexcept;

}  // namespace refract
