// SPDX-License-Identifier: Apache-2.0
// How many turns a test takes that does the same thing at random, or everywhere. The release build takes all
// of them. Under a sanitizer a turn takes up to fifty times as long, and it is the code that is looked at:
// fewer show as much of that.
#pragma once

#include <cstdint>

namespace refract::test {

#ifdef REFRACT_DCHECK_ON
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

[[nodiscard]] constexpr uint64_t turns(uint64_t all, uint64_t sanitized) noexcept {
  return kIsSanitized ? sanitized : all;
}

// From one place that is damaged to the next. Odd, so that it comes to each place in a word, and each bit.
inline constexpr uint64_t kStride = turns(1, 7);

}  // namespace refract::test
