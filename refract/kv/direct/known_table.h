// SPDX-License-Identifier: Apache-2.0
// What a reader knows of a table before it reads: how many buckets there are, where they lie, and how much of
// the space may be read. It holds for one bucket count.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

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

  // The words that say where each chunk of buckets lies.
  struct Directory {
    uint64_t at = 0;
    uint64_t words = 0;
  };
  // Brings it up to date. `places` is what `chunks` points to; no buffer reaches further than `reach`.
  template <typename Memory>
  void look_at(Memory& memory, const Directory& directory, uint64_t reach, std::vector<Offset>& places) {
    const uint64_t bytes = memory.bytes();
    const uint64_t now = memory.observe(kBucketCountAt);
    if (now == 0 || (now - 1) / kBucketsPerChunk >= directory.words || bytes < reach) {
      *this = {};
      return;
    }
    buffers_end = bytes - reach + 1;
    if (now == count) return;
    // Behind the count, which covers a chunk only once its place is stored. A place never changes.
    if (now < count) places.clear();
    for (uint64_t chunk = places.size(); chunk <= (now - 1) / kBucketsPerChunk; ++chunk) {
      const Offset start = line_at(memory.observe({directory.at + chunk * 8}));
      if (start.value == 0 || start.value > bytes - kChunkBytes) {
        *this = {};
        return;
      }
      places.push_back({start.value - chunk * kChunkBytes});
    }
    chunks = places.data();
    mask = ~uint64_t{0} >> std::countl_zero(now);
    count = now;
  }

  [[nodiscard, gnu::always_inline]] Offset bucket_of(uint64_t hash) const noexcept {
    // Without a branch: with a table between two powers of two, the processor could not predict it.
    const uint64_t index = hash & (mask >> uint64_t{(hash & mask) >= count});
    return chunks[index / kBucketsPerChunk].plus(index * kLineBytes);
  }
};

}  // namespace refract::kv
