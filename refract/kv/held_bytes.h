// SPDX-License-Identifier: Apache-2.0
// The first bytes of a short value, in registers: loaded at one moment, stored at a later one, when it is known
// that they are right. So a get that finds out that it must retry has touched nothing of its caller's.
//
// The length, which comes out of a cache miss, decides what is stored and never where: the processor lets no
// later load pass a store whose address it does not know, so the next gets would wait for this one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "refract/memory/remote_visible.h"

#if defined(__SSE2__) && !defined(REFRACT_THREAD_SANITIZER)
#define REFRACT_HELD_BYTES 1
#include <emmintrin.h>

namespace refract::kv {

class HeldBytes {
 public:
  static constexpr size_t kBytes = 64;

  // REQUIRES: kBytes may be read from there on. They may be torn.
  [[gnu::always_inline]] explicit HeldBytes(const std::byte* source) noexcept
      : vectors_{load(source), load(source + 16), load(source + 32), load(source + 48)} {
    std::atomic_signal_fence(std::memory_order_acquire);
  }

  // REQUIRES: bytes <= kBytes.
  [[gnu::always_inline]] void store(std::byte* target, size_t bytes) const noexcept {
    if (bytes == kBytes) {
      for (size_t i = 0; i < 4; ++i) store_vector(target + 16 * i, vectors_[i]);
      return;
    }
    __m128i first = vectors_[0];
    __m128i second = vectors_[1];
    if ((bytes & 32) != 0) {
      store_vector(target, first);
      store_vector(target + 16, second);
      first = vectors_[2];
      second = vectors_[3];
      target = behind(target, 32);
    }
    if ((bytes & 16) != 0) {
      store_vector(target, first);
      first = second;
      target = behind(target, 16);
    }
    auto words = static_cast<uint64_t>(_mm_cvtsi128_si64(first));
    if ((bytes & 8) != 0) {
      std::memcpy(target, &words, 8);
      words = static_cast<uint64_t>(_mm_cvtsi128_si64(_mm_srli_si128(first, 8)));
      target = behind(target, 8);
    }
    if ((bytes & 4) != 0) {
      std::memcpy(target, &words, 4);
      words >>= 32;
      target = behind(target, 4);
    }
    if ((bytes & 2) != 0) {
      std::memcpy(target, &words, 2);
      words >>= 16;
      target = behind(target, 2);
    }
    if ((bytes & 1) != 0) std::memcpy(target, &words, 1);
  }

 private:
  static __m128i load(const std::byte* source) noexcept {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(source));
  }
  static void store_vector(std::byte* target, __m128i vector) noexcept {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target), vector);
  }
  // An address that the compiler cannot compute from the length, as it would like to.
  [[nodiscard]] static std::byte* behind(std::byte* target, size_t bytes) noexcept {
    target += bytes;
    asm("" : "+r"(target));
    return target;
  }

  __m128i vectors_[4];
};

}  // namespace refract::kv
#endif
