// SPDX-License-Identifier: Apache-2.0
// What the words beside options mean: numbers, durations, sizes. The refusals name the flag.
#pragma once

#include <cstdint>
#include <string>

#include "refract/base/report.h"

namespace refract::cli {

// "500ms", "1min": at least a millisecond, in nanoseconds.
[[nodiscard]] Reported<uint64_t> duration_of(const char* flag, const std::string& text);
// "64MiB", "100B".
[[nodiscard]] Reported<uint64_t> size_of(const char* flag, const std::string& text);
// From 1 on.
[[nodiscard]] Reported<uint64_t> whole_number_of(const char* flag, const std::string& text);

}  // namespace refract::cli
