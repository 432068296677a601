// SPDX-License-Identifier: Apache-2.0
// Bytes of others as text that is safe to show: keys, values, paths and messages may hold escape sequences,
// which a terminal obeys, and line breaks, which forge lines of a log.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace refract {

// No overlong forms, no surrogates, nothing above U+10FFFF.
[[nodiscard]] bool is_utf8(std::string_view bytes) noexcept;

enum class LineBreaks : uint8_t {
  kSpelled,  // For what stands in one line.
  kKept,     // Line feeds and tabs stay: for texts of several lines.
};

// Whole. What is no UTF-8, what moves the cursor or changes how a terminal behaves (C0, DEL, C1), what breaks
// lines and what turns the direction of writing is spelled \xNN, byte by byte. A backslash stays as it is, so
// that the result may stand for more than one text; JSON is exact.
[[nodiscard]] std::string printable(std::string_view bytes, LineBreaks breaks = LineBreaks::kSpelled);

}  // namespace refract
