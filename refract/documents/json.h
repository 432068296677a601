// SPDX-License-Identifier: Apache-2.0
// JSON, read and written. What is no UTF-8 in a text is replaced when it is written.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "refract/documents/value.h"

namespace refract::documents {

// Of text that anybody may have written. Members come sorted by their names, each once: of several the last.
// Whole numbers without a sign are unsigned. Nothing: it is no JSON, or nested more deeply than
// kJsonDepthMax.
inline constexpr int kJsonDepthMax = 100;
[[nodiscard]] std::optional<Value> parse_json(std::string_view text);

// In one line, members sorted by their names: for programs.
[[nodiscard]] std::string to_json_line(const Value& value);
// In one line with spaces, members in their order: what commands print. What is no UTF-8 is spelled \xNN
// instead. Ends with a new line.
[[nodiscard]] std::string to_json_row(const Value& value);
// Members in their order, each in a line of its own, indented by two: for people, too. Ends with a new line.
[[nodiscard]] std::string to_json_page(const Value& value);

// Appends `text`, which must be UTF-8 (or a piece of it), as the inside of a JSON string.
void append_escaped(std::string& out, std::string_view text);
// How long that will be.
[[nodiscard]] size_t escaped_bytes(std::string_view text) noexcept;

}  // namespace refract::documents
