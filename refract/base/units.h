// SPDX-License-Identifier: Apache-2.0
// Sizes and durations as integers with the unit in their name.
#pragma once

#include <cstdint>

namespace refract {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;
// Of memory, where it is not mapped by large pages.
inline constexpr uint64_t kPageBytes = 4 * kKiB;

inline constexpr uint64_t kMicrosecond_ns = 1'000;
inline constexpr uint64_t kMillisecond_ns = 1'000'000;
inline constexpr uint64_t kSecond_ns = 1'000'000'000;
// A moment that never comes: no deadline, no timer.
inline constexpr uint64_t kForever_ns = UINT64_MAX;

// The smallest multiple of `unit` that is not below `value`. REQUIRES: unit > 0, no overflow.
[[nodiscard]] constexpr uint64_t round_up(uint64_t value, uint64_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}

// A moment of a clock; beyond its end: never.
[[nodiscard]] constexpr uint64_t moment_after(uint64_t now_ns, uint64_t ns) noexcept {
  return ns > kForever_ns - now_ns ? kForever_ns : now_ns + ns;
}

}  // namespace refract
