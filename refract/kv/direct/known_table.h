// SPDX-License-Identifier: Apache-2.0
// What a reader knows of a table before it reads: how many buckets there are, where they lie, and how much of
// the space may be read. It holds for one bucket count.
#pragma once

#include <cstdint>

#include "refract/kv/layout/layout.h"

namespace refract::kv {

// While nothing is known no buffer lies before `buffers_end`, and the bucket that is looked at is the space's
// first line, which is always there.
struct KnownTable {
  static constexpr Offset kNowhere{};

  uint64_t count = 0;
  uint64_t mask = 0;
  // Where each chunk of buckets would have to lie for the first one's to be bucket 0: so an index needs no
  // remainder. Lent.
  const Offset* chunks = &kNowhere;
  uint64_t buffers_end = 0;

  [[nodiscard, gnu::always_inline]] Offset bucket_of(uint64_t hash) const noexcept {
    // Without a branch: with a table between two powers of two, the processor could not predict it.
    const uint64_t index = hash & (mask >> uint64_t{(hash & mask) >= count});
    return chunks[index / kBucketsPerChunk].plus(index * kLineBytes);
  }
};

}  // namespace refract::kv
