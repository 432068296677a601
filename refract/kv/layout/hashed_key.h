// SPDX-License-Identifier: Apache-2.0
// A key whose hash is computed when it is first asked for, and again only with another seed, which is that of
// another node. A caller that passes it on passes on what is known of it. The bytes are lent.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "refract/base/hash.h"

namespace refract::kv {

// The hash as far as it is known: the shard, the bucket and the fingerprint are parts of it.
struct KeyHash {
  uint64_t seed = 0;
  uint64_t hash = 0;
  bool is_known = false;
};

class HashedKey {
 public:
  HashedKey() noexcept = default;
  // From any bytes, so that a caller who has no hash names the key alone.
  template <typename TheBytes>
    requires std::is_convertible_v<const TheBytes&, std::span<const std::byte>>
  HashedKey(const TheBytes& bytes, const KeyHash& known = {}) noexcept : bytes_(bytes), known_(known) {}

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }
  [[nodiscard]] size_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] uint64_t hash(uint64_t seed) const noexcept {
    if (!known_.is_known || known_.seed != seed) {
      known_ = {.seed = seed, .hash = hash_key(bytes_, seed), .is_known = true};
    }
    return known_.hash;
  }
  [[nodiscard]] const KeyHash& known() const noexcept { return known_; }

 private:
  std::span<const std::byte> bytes_;
  mutable KeyHash known_;
};

}  // namespace refract::kv
