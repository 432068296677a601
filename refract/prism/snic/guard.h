// SPDX-License-Identifier: Apache-2.0
// A store's own word on what chains may change in its region, beside keys and rights: with it, a client that
// may send chains that write can still not bring the store's structure into disorder. Without a guard, rights
// alone decide.
//
// Asked after everything else has been checked: what it allows is done before anything else happens. Offsets
// are the Writer's. Threads: asked by the shard that owns the region.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "refract/base/result.h"
#include "refract/memory/remote_pointer.h"
#include "refract/prism/snic/buffers.h"

namespace refract::prism::snic {

// A compare-and-swap whose comparison held, or a fetch-and-add.
struct Swap {
  Offset at;           // Of the first word that changes or stays: a multiple of 8.
  uint64_t bytes = 0;  // 8 for each word, also where fewer of its bytes are meant.
  std::span<const uint64_t> before;
  std::span<const uint64_t> after;
  bool retires = false;  // What the last word of `before` leads to.
  // The buffer of this chain that the swap stores from the scratch; at nowhere: none.
  Buffers::Fresh installs;
};

class Guard {
 public:
  virtual ~Guard() = default;
  [[nodiscard]] virtual bool may_write(Offset at, uint64_t bytes) noexcept = 0;
  // kOk, or what the swap ends with: kAccessDenied where it may never be made, kOverloaded or kReadOnly where
  // it may not be made now.
  [[nodiscard]] virtual Code may_swap(const Swap& swap) noexcept = 0;
  // Whether a chain may allocate what it does not own: a buffer that stays out when nothing stores it, so
  // that a client that may allocate can use up all memory.
  [[nodiscard]] virtual bool may_allocate_unowned() noexcept { return true; }
};

}  // namespace refract::prism::snic
