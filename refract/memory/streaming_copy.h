// SPDX-License-Identifier: Apache-2.0
// Stores past the caches, for values so large that caches only lose by them: what is overwritten as a whole
// is not read from memory first, which is a third of what a copy moves.
#pragma once

#include <emmintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "refract/base/units.h"
#include "refract/memory/remote_visible.h"

namespace refract {

// From this size of a whole value on it pays.
inline constexpr uint64_t kStreamedBytesMin = 256 * kKiB;

// As store_possibly_torn. Ordered behind whatever was stored, withdrawn or published before it, and before
// what is behind it: stores past the caches are ordered by nothing else, so that a reader could find one of
// them and still the stamp of what was there before.
inline void store_streaming(std::byte* target, const std::byte* source, size_t bytes) noexcept {
#ifdef REFRACT_THREAD_SANITIZER
  store_possibly_torn(target, source, bytes);
#else
  const size_t lead = std::min<size_t>(bytes, -reinterpret_cast<uintptr_t>(target) % 64);
  std::memcpy(target, source, lead);
  size_t at = lead;
  _mm_sfence();
  for (; at + 64 <= bytes; at += 64) {
    const auto* from = reinterpret_cast<const __m128i*>(source + at);
    auto* to = reinterpret_cast<__m128i*>(target + at);
    const __m128i first = _mm_loadu_si128(from);
    const __m128i second = _mm_loadu_si128(from + 1);
    const __m128i third = _mm_loadu_si128(from + 2);
    const __m128i fourth = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, first);
    _mm_stream_si128(to + 1, second);
    _mm_stream_si128(to + 2, third);
    _mm_stream_si128(to + 3, fourth);
  }
  std::memcpy(target + at, source + at, bytes - at);
  _mm_sfence();
#endif
}

}  // namespace refract
