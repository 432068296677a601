// SPDX-License-Identifier: Apache-2.0
// The reference for latency: reads of 64 bytes, each of which says where the next one is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bench/measure/anonymous_memory.h"

namespace refract::bench {

class PointerChase {
 public:
  // A cycle through all 64-byte lines of `bytes` of memory, in random order.
  [[nodiscard]] static Reported<PointerChase> create(size_t bytes, Pages pages);

  // The line after the one at `line`, once all 64 bytes of that one are read.
  [[nodiscard]] uint64_t next(uint64_t line) const noexcept {
    const uint64_t* words = lines_[line].words;
    return words[0] + (words[1] | words[2] | words[3] | words[4] | words[5] | words[6] | words[7]);
  }

 private:
  struct alignas(64) Line {
    uint64_t words[8];  // The next line's index, then zeros.
  };
  explicit PointerChase(AnonymousMemory memory) noexcept
      : memory_(std::move(memory)), lines_(reinterpret_cast<Line*>(memory_.data())) {}

  AnonymousMemory memory_;
  Line* lines_;
};

}  // namespace refract::bench
