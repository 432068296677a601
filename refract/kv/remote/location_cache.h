// SPDX-License-Identifier: Apache-2.0
// Where a remote reader has last seen the entries of keys: a bounded memory of hints, each of which says all
// that one READ of the buffer and one of the slot need, and what they must bring to be believed.
//
// It is cut into sets of eight; a hash can stand in one set only, so that a look-up touches a few
// neighbouring cache lines and nothing needs links. In a full set the place of one that was not used lately
// is taken (CLOCK): a hit sets one bit, where LRU would write the links of three entries, and the two differ
// little in what they keep. All memory is taken at the start.
//
// Threads: one; shared by the coroutines of a shard.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "refract/memory/remote_pointer.h"

namespace refract::kv {

struct Location {
  uint64_t hash = 0;
  Offset slot_at;
  uint64_t word = 0;   // That the slot held while its buffer carried `stamp`.
  uint64_t stamp = 0;  // All of it, so that what is old cannot come round again.
  uint64_t bytes = 0;  // Of that buffer, exactly.
};

class LocationCache {
 public:
  // As many whole sets as fit into `bytes`; none: it remembers nothing.
  explicit LocationCache(size_t bytes);

  // Counts a hit or a miss, and marks what it finds as used.
  [[nodiscard]] std::optional<Location> find(uint64_t hash) noexcept;
  // In place of what was known of that hash. REQUIRES: location.slot_at is somewhere.
  void learn(const Location& location) noexcept;
  // What find() gave was not so any more. Who looks further may learn() what is.
  void forget_stale(uint64_t hash) noexcept;
  void clear() noexcept;

  struct Counts {
    uint64_t hits = 0;
    uint64_t misses = 0;
    uint64_t stale = 0;    // Among the hits: the entry was written again, moved or erased meanwhile.
    uint64_t evicted = 0;  // To make room for another.
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }
  // How many fit, and what that takes.
  [[nodiscard]] size_t capacity() const noexcept { return sets_.size() * kWays; }
  [[nodiscard]] size_t bytes() const noexcept { return sets_.size() * sizeof(Set); }

 private:
  static constexpr size_t kWays = 8;
  struct Set {
    std::array<Location, kWays> ways;  // Without a slot: free.
    uint32_t used = 0;                 // A bit a way: found since the hand came by.
    uint32_t hand = 0;
  };

  // REQUIRES: there are sets.
  [[nodiscard]] Set& set_of(uint64_t hash) noexcept;
  [[nodiscard]] static size_t way_of(const Set& set, uint64_t hash) noexcept;
  [[nodiscard]] size_t make_room(Set& set) noexcept;

  std::vector<Set> sets_;
  Counts counts_;
};

}  // namespace refract::kv
