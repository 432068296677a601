// SPDX-License-Identifier: Apache-2.0
// TOML, read. Threads: any.
#pragma once

#include <string>
#include <string_view>

#include "refract/base/report.h"
#include "refract/documents/value.h"

namespace refract::documents {

// An object, of text that anybody may have written; members sorted by their names, each with its line. Whole
// numbers are integers; dates and times are null. `path` is what an error begins with.
[[nodiscard]] Reported<Value> parse_toml(std::string_view text, const std::string& path);

}  // namespace refract::documents
