// SPDX-License-Identifier: Apache-2.0
// What Redis takes a word for.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace refract::doors::redis {

[[nodiscard]] bool is(std::string_view word, std::string_view in_lower_letters) noexcept;
// The same of an option, of which Redis sees what stands in front of a zero.
[[nodiscard]] bool is_option(std::string_view word, std::string_view in_lower_letters) noexcept;
// The whole word, no "+", no leading zero, no "-0".
[[nodiscard]] std::optional<int64_t> integer_of(std::string_view word) noexcept;

}  // namespace refract::doors::redis
