// SPDX-License-Identifier: Apache-2.0
// Notices that a chain of lines comes back to where it was, within thrice as many steps as it has lines: in a
// damaged space every chain may be a ring, and no number of lines tells one from a long chain.
#pragma once

#include <cstdint>

#include "refract/memory/space.h"

namespace refract::kv {

class RingFinder {
 public:
  // Whether the chain was at this line before. False for a while although it was, but never true otherwise,
  // unless the chain is changed meanwhile.
  [[nodiscard]] bool was_at(Offset line) noexcept {
    if (line == mark_) return true;
    if (++steps_ == steps_to_next_mark_) {
      mark_ = line;
      steps_ = 0;
      steps_to_next_mark_ *= 2;
    }
    return false;
  }

 private:
  Offset mark_;
  uint64_t steps_ = 0;
  uint64_t steps_to_next_mark_ = 1;
};

}  // namespace refract::kv
