// SPDX-License-Identifier: Apache-2.0
// What all pages are made of. A page is made from a file that anybody may have written: whatever it holds,
// nothing here throws, and text stays text.
#pragma once

#include <string>
#include <string_view>

#include "refract/documents/value.h"

namespace refract::bench {

[[nodiscard]] std::string escaped(std::string_view text);

// The fields of a JSON object, with an empty value where they are missing or of another type.
[[nodiscard]] std::string text_in(const documents::Value& object, const char* name);
[[nodiscard]] double number_in(const documents::Value& object, const char* name);
[[nodiscard]] documents::Value list_in(const documents::Value& object, const char* name);
[[nodiscard]] documents::Value object_in(const documents::Value& object, const char* name);

// False where it is missing, too.
[[nodiscard]] bool flag_in(const documents::Value& object, const char* name);

// The facts of an object as a list of definitions.
[[nodiscard]] std::string facts_of(const documents::Value& object);
// The cells of a reference, and their heads.
[[nodiscard]] std::string reference_cells(const documents::Value& reference);
[[nodiscard]] std::string_view reference_heads();

// Cycles and instructions an operation, of the sides of a load that have them; a sentence where none has.
[[nodiscard]] std::string counts_of(const documents::Value& sides);

// A whole page.
[[nodiscard]] std::string page_of(std::string_view title, std::string_view heading, std::string_view body);

// The page of what `refract-bench kv --json` wrote.
[[nodiscard]] std::string kv_page_of(const documents::Value& run);
// Likewise with --sweep over anything but rates.
[[nodiscard]] std::string kv_sweep_page_of(const documents::Value& run);
// Likewise of `refract-bench fabric --json`.
[[nodiscard]] std::string fabric_page_of(const documents::Value& run);
// Likewise of `refract-bench growth --json`.
[[nodiscard]] std::string growth_page_of(const documents::Value& run);

}  // namespace refract::bench
