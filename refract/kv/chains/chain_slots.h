// SPDX-License-Identifier: Apache-2.0
// Where a client of chains has last seen the entries of keys: a bounded memory of hints. A slot's address
// stays true until the entry is erased or its bucket split; its word until the entry is written again. So
// a caller that uses a hint has the chain find out whether it still holds.
//
// Each hash has one place, which the one learnt last keeps. Threads: one.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "refract/memory/remote_pointer.h"

namespace refract::kv {

struct KnownSlot {
  uint64_t hash = 0;
  Offset at;           // Of the slot; nowhere: nothing is known.
  uint64_t word = 0;   // That it held together with `stamp`; 0: unknown.
  uint64_t stamp = 0;  // Of the buffer that it led to; 0: unknown.
  uint64_t bytes = 0;  // Of that buffer.
};

class ChainSlots {
 public:
  // 0: remembers nothing. Else rounded up to a power of two.
  explicit ChainSlots(size_t count) : slots_(count == 0 ? 0 : std::bit_ceil(count)) {}

  // Null: nothing is known. Valid until learn().
  [[nodiscard]] const KnownSlot* find(uint64_t hash) const noexcept {
    if (slots_.empty()) return nullptr;
    const KnownSlot& slot = slots_[place_of(hash)];
    return slot.at && slot.hash == hash ? &slot : nullptr;
  }
  void learn(const KnownSlot& slot) noexcept {
    if (!slots_.empty()) slots_[place_of(slot.hash)] = slot;
  }
  void forget(uint64_t hash) noexcept {
    if (find(hash) != nullptr) slots_[place_of(hash)] = {};
  }
  void clear() noexcept { slots_.assign(slots_.size(), {}); }

 private:
  // Not by the bits that name the bucket or the fingerprint alone.
  [[nodiscard]] size_t place_of(uint64_t hash) const noexcept {
    return static_cast<size_t>(hash ^ (hash >> 32)) & (slots_.size() - 1);
  }

  std::vector<KnownSlot> slots_;
};

}  // namespace refract::kv
