// SPDX-License-Identifier: Apache-2.0
// Patterns of KEYS, SCAN and CONFIG GET: `*`, `?`, `[a-z]`, `[^a]`, `\` before what stands for itself.
#pragma once

#include <string_view>

namespace refract::doors::redis {

// Whether all of `text` is as the pattern has it. Takes time in proportion to the product of both lengths.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view text,
                           bool ignores_case = false) noexcept;

}  // namespace refract::doors::redis
