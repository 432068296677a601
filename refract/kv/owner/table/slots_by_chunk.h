// SPDX-License-Identifier: Apache-2.0
// Slots gathered in the order of their buckets, given back in the order of the chunks in which their buffers
// lie: a walk over every buffer of a table then has the lines, pages and page tables of one chunk at a time,
// where the order of the buckets would jump all over the memory.
//
//   SlotsByChunk slots(chunks, count);
//   for each slot: if (!slots.add(slot)) { slots.drain(visit); slots.add(slot); }
//   slots.drain(visit);
//
// Sorted by counting, 16 bytes a slot. Threads: one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "refract/base/result.h"
#include "refract/kv/layout/layout.h"
#include "refract/memory/size_class.h"

namespace refract::kv {

class SlotsByChunk {
 public:
  // Room for the slots of a table of so many, but for no more than kSlotsMax at a time.
  SlotsByChunk(uint64_t chunks, uint64_t slots)
      : slots_max_(std::clamp<uint64_t>(slots, 1, kSlotsMax)), ends_(chunks + 1) {
    gathered_.reserve(slots_max_);
  }

  // False: there is no room left. REQUIRES: the buffer lies in one of the chunks.
  [[nodiscard]] bool add(Slot slot) {
    if (gathered_.size() == slots_max_) return false;
    gathered_.push_back(slot.bits);
    ++ends_[chunk_of(slot)];
    return true;
  }

  // `visit(slot)` for all that were gathered, and forgets them. What it returns but kOk ends the walk.
  // `approach(slot)` comes some slots earlier.
  template <typename Approach, typename Visit>
  [[nodiscard]] Code drain(Approach&& approach, Visit&& visit) {
    order();
    gathered_.clear();
    const std::span<const uint64_t> ordered = ordered_;
    for (size_t i = 0; i < ordered.size(); ++i) {
      if (i + kAhead < ordered.size()) approach(Slot{ordered[i + kAhead]});
      if (const Code code = visit(Slot{ordered[i]}); code != Code::kOk) return code;
    }
    return Code::kOk;
  }

 private:
  static constexpr uint64_t kSlotsMax = uint64_t{16} << 20;
  static constexpr size_t kAhead = 16;

  [[nodiscard]] static uint64_t chunk_of(Slot slot) noexcept { return slot.buffer().value / kChunkBytes; }

  void order() {
    ordered_.resize(gathered_.size());
    uint64_t end = 0;
    for (uint64_t& count : ends_) end = std::exchange(count, end) + end;
    for (const uint64_t bits : gathered_) ordered_[ends_[chunk_of(Slot{bits})]++] = bits;
    std::ranges::fill(ends_, 0);
  }

  const uint64_t slots_max_;
  std::vector<uint64_t> gathered_;
  std::vector<uint64_t> ordered_;
  std::vector<uint64_t> ends_;  // By chunk: first how many, then where the next goes.
};

}  // namespace refract::kv
