// SPDX-License-Identifier: Apache-2.0
// The first bytes of a short value, in registers: loaded at one moment, stored at a later one, when it is
// known that they are right. So a get that finds out that it must retry has touched nothing of its caller's.
//
// The length, which comes out of a cache miss, decides what is stored and never where: the processor lets no
// later load pass a store whose address it does not know, so the next gets would wait for this one.
#pragma once

#include <emmintrin.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace refract::kv {

class HeldBytes {
 public:
  static constexpr size_t kBytes = 64;

  // REQUIRES: kBytes may be read from there on. They may be torn.
  [[gnu::always_inline]] explicit HeldBytes(const std::byte* source) noexcept
      : first_(load(source)),
        second_(load(source + 16)),
        third_(load(source + 32)),
        fourth_(load(source + 48)) {
    std::atomic_signal_fence(std::memory_order_acquire);
  }

  // REQUIRES: bytes <= kBytes.
  [[gnu::always_inline]] void store(std::byte* target, size_t bytes) const noexcept {
    if (bytes == kBytes) {
      store_vector(target, first_);
      store_vector(target + 16, second_);
      store_vector(target + 32, third_);
      store_vector(target + 48, fourth_);
      return;
    }
    __m128i first = first_;
    __m128i second = second_;
    if ((bytes & 32) != 0) {
      store_vector(target, first);
      store_vector(target + 16, second);
      first = third_;
      second = fourth_;
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
  [[gnu::always_inline]] static __m128i load(const std::byte* source) noexcept {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(source));
  }
  [[gnu::always_inline]] static void store_vector(std::byte* target, __m128i vector) noexcept {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target), vector);
  }
  // An address that the compiler cannot compute from the length, as it would like to.
  [[nodiscard, gnu::always_inline]] static std::byte* behind(std::byte* target, size_t bytes) noexcept {
    target += bytes;
    asm("" : "+r"(target));
    return target;
  }

  __m128i first_;
  __m128i second_;
  __m128i third_;
  __m128i fourth_;
};

}  // namespace refract::kv
