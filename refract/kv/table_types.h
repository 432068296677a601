// SPDX-License-Identifier: Apache-2.0
// What a table says of itself and of its entries: Table has these under the names without the prefix.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "refract/base/units.h"
#include "refract/kv/contract.h"
#include "refract/kv/layout.h"

namespace refract::kv {

// When a sweep first has something to find: no entry's time comes before ns(), in the clock's wall_ns(). It
// may be too early, where the entry it speaks of has gone, and a round of sweeps makes it right.
class FirstExpiry {
 public:
  // kForever_ns: no entry expires.
  [[nodiscard]] uint64_t ns() const noexcept { return first_ns_; }
  // An entry with this time was stored.
  void stored(uint64_t wall_ns) noexcept {
    first_ns_ = std::min(first_ns_, wall_ns);
    left(wall_ns);
  }
  // A sweep has left this one where it is.
  void left(uint64_t wall_ns) noexcept { first_of_round_ns_ = std::min(first_of_round_ns_, wall_ns); }
  // Every bucket was swept since the last call; what a split moved meanwhile went where the round had yet to
  // come.
  void end_round() noexcept { first_ns_ = std::exchange(first_of_round_ns_, kForever_ns); }
  // Entries were found whose times are not known yet.
  void forget() noexcept { first_ns_ = 0; }

 private:
  uint64_t first_ns_ = kForever_ns;
  uint64_t first_of_round_ns_ = kForever_ns;  // Of what this round has left, and of what came since it began.
};

struct TableStats {
  uint64_t entries = 0;
  uint64_t expiring_entries = 0;  // Among them, those with a time to live.
  uint64_t buckets = 0;
  uint64_t overflow_lines = 0;
  uint64_t splits = 0;
  uint64_t expired = 0;  // Removed because their time had come.
  uint64_t evicted = 0;  // Removed so that others had room.
  uint64_t evicted_bytes = 0;
  FirstExpiry first_expiry;
};

// A value on its way into the table: its buffer, which nobody else sees.
struct TableDraft {
  Offset buffer{};
  Lengths lengths{};
  uint64_t hash = 0;
};

// As the owner sees it.
struct TableEntry {
  uint64_t version = 0;
  Offset buffer;
  uint64_t buffer_bytes = 0;
  std::span<const std::byte> value;
  uint64_t expires_wall_ns = 0;
  RequestId request;  // Of the put that made it, if that had one.
};

struct TableDamage {
  Offset at;
  const char* what = nullptr;
};

}  // namespace refract::kv
