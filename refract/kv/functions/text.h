// SPDX-License-Identifier: Apache-2.0
// Numbers in decimal, as Redis 7.0 reads and writes them: which texts are numbers, and which text a number
// has. The same on every machine whose long double has the same mantissa, in any locale.
//
// Pure: no allocation. Threads: any.
#pragma once

#include <cfloat>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace refract::kv::functions {

inline constexpr size_t kIntegerTextBytesMax = 20;
// Of a text that is read; a longer one is no float.
inline constexpr size_t kFloatTextBytesRead = 5 * 1024 - 1;
// Of a text that is written: sign, digits in front of the point, the point, digits behind it.
inline constexpr size_t kFloatDigits = 17;
inline constexpr size_t kFloatTextBytesMax = 1 + (LDBL_MAX_10_EXP + 1) + 1 + kFloatDigits;

// As string2ll: the whole text, in 64 bits, no sign but one minus, no leading zero, no "-0", no space.
[[nodiscard]] std::optional<int64_t> integer_in(std::string_view text) noexcept;
// How many bytes it wrote. REQUIRES: room for kIntegerTextBytesMax.
size_t write_integer(int64_t number, std::span<char> room) noexcept;

// As string2ld: the whole text, which begins with no space, as strtold reads it: hexadecimal ones and those
// of infinity are floats; NaN, and what is too large or too small for a long double, is none.
[[nodiscard]] std::optional<long double> float_in(std::string_view text) noexcept;
// As ld2string for people: `%.17Lf` without zeros at its end, without a point at its end, and 0 for "-0". How
// many bytes it wrote; 0: they have no room, and room may be written to. REQUIRES: a finite number.
[[nodiscard]] size_t write_float(long double number, std::span<char> room) noexcept;

}  // namespace refract::kv::functions
