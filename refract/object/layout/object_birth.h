// SPDX-License-Identifier: Apache-2.0
// Births and claims. A birth names a creation and its object, and is read by all: it stands in records. A
// claim says that its caller is the creator: 64 random bits that only creator and owner see. The birth
// follows from id and claim, and the claim does not follow from the birth, so that an owner that was killed
// knows the creator again from the record alone, and no other client can speak for it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "refract/base/secret_hash.h"

namespace refract::object {

// Never 0.
[[nodiscard]] inline uint64_t birth_of(std::span<const std::byte> id, uint64_t claim) noexcept {
  // "birth": the half of the key that is no secret.
  const SipHash<2, 4> hash(SecretKey{.low = claim, .high = 0x68'7472'6962});
  return std::max<uint64_t>(hash(id), 1);
}

}  // namespace refract::object
