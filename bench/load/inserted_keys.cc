// SPDX-License-Identifier: Apache-2.0
#include "bench/load/inserted_keys.h"

#include <algorithm>

namespace refract::bench {

void InsertedKeys::ended(uint64_t insert) {
  early_.push_back(insert);
  // As many as are in flight, and mostly one.
  for (auto next = early_.begin(); next != early_.end(); next = std::ranges::find(early_, ended_)) {
    if (*next != ended_) continue;
    *next = early_.back();
    early_.pop_back();
    ++ended_;
  }
}

uint64_t InsertedKeys::latest(uint64_t rank) const noexcept {
  const uint64_t own = std::min(ended_, place_.room);
  return rank < own ? index_of(ended_ - 1 - rank) : place_.keys - 1 - (rank - own);
}

}  // namespace refract::bench
