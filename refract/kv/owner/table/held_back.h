// SPDX-License-Identifier: Apache-2.0
// Buffers that no slot names any more, but whose bytes a log has still to read (docs/design/025-log.md, 3):
// they wait here, each until the log has got as far as it said, and are retired then. They count as live in
// the heap meanwhile.
//
// Threads: used only by the shard that owns the space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "refract/memory/heap.h"

namespace refract::kv {

class HeldBack {
 public:
  struct Buffer {
    uint64_t needed_until = 0;  // A position of the log.
    Offset at;
    uint64_t bytes = 0;
  };

  // The heap outlives it.
  explicit HeldBack(Heap& heap) noexcept : heap_(heap) {}

  void keep(const Buffer& buffer);
  // Retires those that are needed up to `position` or less; returns how many.
  size_t release(uint64_t position);

  [[nodiscard]] size_t count() const noexcept { return buffers_.size(); }
  [[nodiscard]] uint64_t bytes() const noexcept { return bytes_; }

 private:
  Heap& heap_;
  std::vector<Buffer> buffers_;  // A heap: the one that is needed least long stands first.
  uint64_t bytes_ = 0;
};

}  // namespace refract::kv
