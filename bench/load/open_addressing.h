// SPDX-License-Identifier: Apache-2.0
// The reference for gets: the fastest table that we know to write inside one process.
//
// Open addressing with linear probing; a tag byte a slot in an array of its own, key and value inline in the
// slot. Tag and slot both follow from the hash, so their misses overlap: this is what a store that keeps
// values out of place cannot do. Fixed size, no deletion, one thread, transparent huge pages.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "bench/load/entry.h"
#include "bench/measure/anonymous_memory.h"

#include "refract/base/hash.h"

namespace refract::bench {

class OpenAddressing {
 public:
  // For up to `entries`, at a load factor between 0.35 and 0.7.
  [[nodiscard]] static Reported<OpenAddressing> create(uint64_t entries) {
    const uint64_t slots = std::bit_ceil(entries + entries * 3 / 7);
    Reported<AnonymousMemory> memory =
        AnonymousMemory::create(slots * (sizeof(Slot) + 1), Pages::kTransparent);
    if (!memory) return report(memory.error());
    return OpenAddressing(std::move(*memory), slots);
  }

  // REQUIRES: fewer entries than create() was told are in it.
  void put(const Key& key, const Value& value) noexcept {
    const uint64_t hash = hash_key(key.bytes(), kSeed);
    for (uint64_t at = hash & mask_;; at = (at + 1) & mask_) {
      if (tags_[at] != 0 && std::memcmp(&slots_[at].key, &key, sizeof(key)) != 0) continue;
      tags_[at] = tag_of(hash);
      slots_[at] = {key, value};
      return;
    }
  }

  [[nodiscard]] bool get(const Key& key, Value& value) const noexcept {
    const uint64_t hash = hash_key(key.bytes(), kSeed);
    const uint8_t tag = tag_of(hash);
    for (uint64_t at = hash & mask_;; at = (at + 1) & mask_) {
      if (tags_[at] == tag) {
        const Slot& slot = slots_[at];
        if (slot.key.words[0] == key.words[0] && slot.key.words[1] == key.words[1]) {
          value = slot.value;
          return true;
        }
      } else if (tags_[at] == 0) {
        return false;
      }
    }
  }

  // Of one who asks for many keys: tag and slot, whose places both follow from the hash.
  void prefetch(const Key& key) const noexcept {
    const uint64_t at = hash_key(key.bytes(), kSeed) & mask_;
    __builtin_prefetch(&tags_[at]);
    __builtin_prefetch(&slots_[at]);
    __builtin_prefetch(reinterpret_cast<const std::byte*>(&slots_[at]) + sizeof(Slot) - 1);
  }

  [[nodiscard]] uint64_t slot_count() const noexcept { return mask_ + 1; }

 private:
  struct Slot {
    Key key;
    Value value;
  };
  static constexpr uint64_t kSeed = 42;
  static uint8_t tag_of(uint64_t hash) noexcept { return static_cast<uint8_t>((hash >> 57) | 0x80); }

  OpenAddressing(AnonymousMemory memory, uint64_t slots) noexcept
      : memory_(std::move(memory)),
        mask_(slots - 1),
        slots_(reinterpret_cast<Slot*>(memory_.data())),
        tags_(reinterpret_cast<uint8_t*>(memory_.data() + slots * sizeof(Slot))) {}

  AnonymousMemory memory_;
  uint64_t mask_;
  Slot* slots_;
  uint8_t* tags_;
};

}  // namespace refract::bench
