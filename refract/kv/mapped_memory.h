// SPDX-License-Identifier: Apache-2.0
// The memory policy of a direct reader whose node's space is mapped here: plain loads.
#pragma once

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "refract/kv/slot_match.h"
#include "refract/memory/pins.h"
#include "refract/memory/remote_visible.h"

namespace refract::kv {

class MappedMemory {
 public:
  // `pins` may be null. What is mapped may grow (set_bytes), the base stays.
  MappedMemory(const std::byte* base, uint64_t bytes, PinWriter* pins) noexcept
      : base_(base), bytes_(bytes), pins_(pins) {}

  [[nodiscard]] uint64_t observe(Offset at) const noexcept { return observe_u64(base_ + at.value); }
  [[gnu::always_inline]] void copy(void* target, Offset at, size_t bytes) const noexcept {
#ifndef REFRACT_THREAD_SANITIZER
    // Short values by whole vectors, the last overlapping: a call costs more than the bytes.
    if (bytes >= sizeof(__m128i) && bytes <= kInlineCopyBytes) {
      auto* to = static_cast<std::byte*>(target);
      const std::byte* from = base_ + at.value;
      const size_t last = bytes - sizeof(__m128i);
      copy_vector(to, from);
      for (size_t i = sizeof(__m128i); i < last; i += sizeof(__m128i)) copy_vector(to + i, from + i);
      copy_vector(to + last, from + last);
      return;
    }
#endif
    copy_possibly_torn(target, base_ + at.value, bytes);
  }
  [[nodiscard]] bool equals(Offset at, std::span<const std::byte> bytes) const noexcept {
    return equals(base_ + at.value, bytes.data(), bytes.size());
  }
  [[nodiscard]] uint32_t match(Offset bucket, uint8_t fingerprint) const noexcept {
    return match_slots(base_ + bucket.value, fingerprint);
  }
  void prefetch(Offset at) const noexcept { __builtin_prefetch(base_ + at.value); }
  [[nodiscard]] uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] PinWriter* pins() const noexcept { return pins_; }

  [[nodiscard]] const std::byte* at(Offset at) const noexcept { return base_ + at.value; }
  void set_bytes(uint64_t bytes) noexcept { bytes_ = bytes; }

 private:
  static constexpr size_t kInlineCopyBytes = 256;

#ifndef REFRACT_THREAD_SANITIZER
  static void copy_vector(std::byte* to, const std::byte* from) noexcept {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
#endif

  // Eight bytes at a time, the last overlapping: keys are short, and a call costs as much as the compare.
  [[nodiscard, gnu::always_inline]] static bool equals(const std::byte* left, const std::byte* right,
                                                       size_t bytes) noexcept {
#ifdef REFRACT_THREAD_SANITIZER
    for (size_t i = 0; i < bytes; ++i) {
      std::byte byte;
      copy_possibly_torn(&byte, left + i, 1);
      if (byte != right[i]) return false;
    }
    return true;
#else
    if (bytes < 8) return std::memcmp(left, right, bytes) == 0;
    const auto differs = [&](size_t at) {
      uint64_t a;
      uint64_t b;
      std::memcpy(&a, left + at, 8);
      std::memcpy(&b, right + at, 8);
      return a != b;
    };
    if (differs(0) || differs(bytes - 8)) return false;
    for (size_t at = 8; at + 8 < bytes; at += 8) {
      if (differs(at)) return false;
    }
    return true;
#endif
  }

  const std::byte* base_;
  uint64_t bytes_;
  PinWriter* pins_;
};

}  // namespace refract::kv
