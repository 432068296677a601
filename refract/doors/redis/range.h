// SPDX-License-Identifier: Apache-2.0
// A part of a value, as GETRANGE names it.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <string_view>

namespace refract::doors::redis {

// From `first` to `last`, both of them included; negative ones count from the end, -1 is the last byte.
[[nodiscard]] std::string_view range_of(std::string_view value, int64_t first, int64_t last) noexcept;

}  // namespace refract::doors::redis
