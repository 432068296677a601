// SPDX-License-Identifier: Apache-2.0
// OpenAddressing for keys and values of sizes that are known only when it is made.
//
// Linear probing; a tag byte a slot in an array of its own, key and value inline in the slot. Fixed size, no
// deletion, one thread, transparent huge pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "bench/measure/anonymous_memory.h"

namespace refract::bench {

class SizedTable {
 public:
  struct Sizes {
    uint64_t entries = 0;
    size_t key_bytes = 0;
    size_t value_bytes = 0;
  };
  // At a load factor between 0.35 and 0.7.
  [[nodiscard]] static Reported<SizedTable> create(const Sizes& sizes);

  // REQUIRES: fewer entries than create() was told are in it.
  void put(std::span<const std::byte> key, std::span<const std::byte> value) noexcept;
  [[nodiscard]] bool get(std::span<const std::byte> key, std::span<std::byte> value) const noexcept;

 private:
  SizedTable(AnonymousMemory memory, const Sizes& sizes, uint64_t slots) noexcept;
  [[nodiscard]] std::byte* slot(uint64_t at) const noexcept { return slots_ + at * slot_bytes_; }

  AnonymousMemory memory_;
  Sizes sizes_;
  uint64_t mask_;
  size_t slot_bytes_;
  std::byte* slots_;
  uint8_t* tags_;
};

}  // namespace refract::bench
