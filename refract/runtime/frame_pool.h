// SPDX-License-Identifier: Apache-2.0
// Where coroutine frames live: a pool for each thread, with a free list for each multiple of 64 bytes up to 4
// KiB.
//
// After warm-up a frame costs no heap allocation and no lock; the statistics let tests assert that. Larger
// frames come from the heap each time. A frame may be freed by another thread than the one that made it (it
// joins that thread's pool). A thread's pool goes back to the heap when the thread ends. Running out of
// memory aborts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "refract/base/api.h"

namespace refract::runtime {

class REFRACT_API FramePool {
 public:
  static constexpr size_t kStepBytes = 64;
  static constexpr size_t kPooledBytesMax = 4096;

  struct Stats {
    uint64_t hit_count;   // Frames served from a free list.
    uint64_t heap_count;  // Frames that needed the heap: first use of a size, or larger than kPooledBytesMax.
  };

  [[nodiscard]] static void* allocate(size_t bytes) noexcept;
  static void release(void* frame, size_t bytes) noexcept;
  // Of the calling thread, since it started.
  [[nodiscard]] static Stats stats() noexcept;
};

}  // namespace refract::runtime
