// SPDX-License-Identifier: Apache-2.0
// Whether two keys are the same: keys are short, and a call costs as much as the compare.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "refract/memory/remote_visible.h"

namespace refract::kv {

#ifndef REFRACT_THREAD_SANITIZER
template <typename Word>
[[nodiscard, gnu::always_inline]] inline bool same_word(const std::byte* left,
                                                        const std::byte* right) noexcept {
  Word a;
  Word b;
  std::memcpy(&a, left, sizeof(a));
  std::memcpy(&b, right, sizeof(b));
  return a == b;
}
#endif

// `left` may be what its owner is changing. Eight bytes at a time, the last overlapping.
[[nodiscard, gnu::always_inline]] inline bool same_bytes(const std::byte* left, const std::byte* right,
                                                         size_t bytes) noexcept {
#ifdef REFRACT_THREAD_SANITIZER
  for (size_t i = 0; i < bytes; ++i) {
    std::byte byte;
    copy_possibly_torn(&byte, left + i, 1);
    if (byte != right[i]) return false;
  }
  return true;
#else
  if (bytes < 8) [[unlikely]] {
    if (bytes >= 4) {
      return same_word<uint32_t>(left, right) && same_word<uint32_t>(left + bytes - 4, right + bytes - 4);
    }
    for (size_t i = 0; i < bytes; ++i) {
      if (left[i] != right[i]) return false;
    }
    return true;
  }
  if (!same_word<uint64_t>(left, right)) return false;
  if (!same_word<uint64_t>(left + bytes - 8, right + bytes - 8)) return false;
  if (bytes <= 16) [[likely]]
    return true;
  for (size_t at = 8; at + 8 < bytes; at += 8) {
    if (!same_word<uint64_t>(left + at, right + at)) return false;
  }
  return true;
#endif
}

}  // namespace refract::kv
