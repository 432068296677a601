// SPDX-License-Identifier: Apache-2.0
#include <sys/random.h>

#include "refract/base/check.h"
#include "refract/base/prng.h"

namespace refract {

void secure_random(std::span<std::byte> bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t got = getrandom(bytes.data(), bytes.size(), 0);
    REFRACT_CHECK(got > 0);
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
}

uint64_t secure_random_u64() noexcept {
  uint64_t value = 0;
  secure_random(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

}  // namespace refract
