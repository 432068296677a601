// SPDX-License-Identifier: Apache-2.0
// Any bytes as text: for messages, for a terminal, for JSON. What a store holds need not be text at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/printable.h"
#include "refract/documents/value.h"

namespace refract::records {

// For a message: in quotes, shortened, everything that is no plain text spelled \xNN.
[[nodiscard]] std::string in_quotes(std::string_view bytes);
// For a terminal, whole, in one line.
using refract::printable;
// Adds the member that holds any bytes: `name` or, where they are not UTF-8, `name`_base64.
void append_bytes(documents::Value& object, std::string_view name, std::string_view bytes);

[[nodiscard]] std::string hex_text(std::span<const std::byte> bytes);
// Lines of 16 bytes: where they stand, counted from `offset`; their digits; their letters.
[[nodiscard]] std::vector<std::string> hex_lines(std::span<const std::byte> bytes, uint64_t offset);

}  // namespace refract::records
