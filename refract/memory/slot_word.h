// SPDX-License-Identifier: Apache-2.0
// The part of a table's slot that a reader must know to follow it: where the buffer lies, and the low bits of
// the buffer's stamp. What else stands in the word is the store's own (kv/layout/layout.h).
//
//   bits 0 to 34    granule: the buffer's offset in kGranuleBytes; 0: the slot is free
//   bits 40 to 55   the low 16 bits of the buffer's stamp
#pragma once

#include <cstdint>

#include "refract/memory/remote_pointer.h"
#include "refract/memory/size_class.h"

namespace refract {

struct SlotWord {
  uint64_t bits = 0;

  static constexpr int kStampShift = 40;
  static constexpr uint64_t kStampMask = 0xffff;
  static constexpr uint64_t kGranuleMask = (uint64_t{1} << 35) - 1;

  // REQUIRES: the buffer starts at a multiple of kGranuleBytes.
  [[nodiscard]] static constexpr SlotWord of(Offset buffer, uint64_t stamp) noexcept {
    return {((stamp & kStampMask) << kStampShift) | ((buffer.value / kGranuleBytes) & kGranuleMask)};
  }
  [[nodiscard]] constexpr Offset buffer() const noexcept { return {(bits & kGranuleMask) * kGranuleBytes}; }
  [[nodiscard]] constexpr uint64_t stamp_bits() const noexcept { return (bits >> kStampShift) & kStampMask; }
};
static_assert(sizeof(SlotWord) == 8);

}  // namespace refract
