// SPDX-License-Identifier: Apache-2.0
// Which slots of a bucket carry a fingerprint: one compare of the whole line instead of seven.
//
// How many gets overlap in the processor is decided by the instructions of each, so this compare is worth a
// third of the throughput. SSE2 is in every x86-64 processor; wider vectors gained nothing over it here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "refract/kv/layout/layout.h"
#include "refract/memory/remote_visible.h"

#if defined(__SSE2__) && !defined(REFRACT_THREAD_SANITIZER)
#include <emmintrin.h>
#endif

namespace refract::kv {

// Bit i is set where slot i's fingerprint is `fingerprint`; free slots may match. Only a hint: the caller
// observes the slot by an 8-byte load and looks again.
[[nodiscard]] inline uint32_t match_slots(const std::byte* bucket, uint8_t fingerprint) noexcept {
#if defined(__SSE2__) && !defined(REFRACT_THREAD_SANITIZER)
  const auto* words = reinterpret_cast<const __m128*>(bucket);
  // The high halves of the eight words; of each only the top byte's outcome stays, as the sign of a lane.
  const __m128i low = _mm_castps_si128(_mm_shuffle_ps(words[0], words[1], 0xdd));
  const __m128i high = _mm_castps_si128(_mm_shuffle_ps(words[2], words[3], 0xdd));
  const __m128i wanted = _mm_set1_epi8(static_cast<char>(fingerprint));
  const __m128i signs = _mm_packs_epi32(_mm_cmpeq_epi8(low, wanted), _mm_cmpeq_epi8(high, wanted));
  const auto lanes = static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(signs, signs)));
  return lanes & 0x7f;  // The eighth word is the overflow.
#else
  uint32_t matches = 0;
  for (uint32_t i = 0; i < kSlotsPerBucket; ++i) {
    const Slot slot{observe_u64(bucket + i * sizeof(Slot))};
    matches |= uint32_t{slot.fingerprint() == fingerprint} << i;
  }
  return matches;
#endif
}

}  // namespace refract::kv
