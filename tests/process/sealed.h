// SPDX-License-Identifier: Apache-2.0
// Values that convict themselves: every byte follows from key, number and length, which the value names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace refract::test {

inline constexpr uint64_t kSealedBytesMin = 16;

// REQUIRES: bytes >= kSealedBytesMin.
[[nodiscard]] std::string sealed_value(std::string_view key, uint64_t number, uint64_t bytes);
// The number, if this is whole and was made for this key.
[[nodiscard]] std::optional<uint64_t> number_in(std::string_view key, std::string_view value);

}  // namespace refract::test
