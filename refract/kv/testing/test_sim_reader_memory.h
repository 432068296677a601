// SPDX-License-Identifier: Apache-2.0
// The memory policy of a direct reader in the simulator, for tests: every word it loads may be the one before
// which more of the owner's stores become visible.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "refract/fabric/sim/visible_memory.h"
#include "refract/kv/layout/layout.h"
#include "refract/memory/pins.h"

namespace refract::kv {

class SimReaderMemory {
 public:
  explicit SimReaderMemory(const sim::ReaderMemory& memory, PinWriter* pins = nullptr) noexcept
      : memory_(memory), pins_(pins) {}

  [[nodiscard]] uint64_t observe(Offset at) noexcept { return memory_.observe(at); }
  void copy(void* target, Offset at, size_t bytes) noexcept { memory_.copy(target, at, bytes); }
  [[nodiscard]] bool equals(Offset at, std::span<const std::byte> bytes) {
    std::vector<std::byte> copied(bytes.size());
    memory_.copy(copied.data(), at, copied.size());
    return std::memcmp(copied.data(), bytes.data(), bytes.size()) == 0;
  }
  [[nodiscard]] uint32_t match(Offset bucket, uint8_t fingerprint) noexcept {
    uint32_t matches = 0;
    for (uint32_t i = 0; i < kSlotsPerBucket; ++i) {
      const Slot slot{observe(bucket.plus(i * sizeof(Slot)))};
      matches |= uint32_t{slot.fingerprint() == fingerprint} << i;
    }
    return matches;
  }
  void prefetch(Offset) const noexcept {}
  [[nodiscard]] uint64_t bytes() const noexcept { return memory_.bytes(); }
  [[nodiscard]] PinWriter* pins() const noexcept { return pins_; }

 private:
  sim::ReaderMemory memory_;
  PinWriter* pins_;
};

}  // namespace refract::kv
