// SPDX-License-Identifier: Apache-2.0
// The fields of a JSON object in a file of any origin: an empty value where one is missing or
// of another type.
#pragma once

#include <string>
#include <vector>

#include "refract/documents/value.h"

namespace refract::bench {

[[nodiscard]] std::string text_in(const documents::Value& object, const char* name);
[[nodiscard]] double number_in(const documents::Value& object, const char* name);
[[nodiscard]] bool flag_in(const documents::Value& object, const char* name);
[[nodiscard]] documents::Value list_in(const documents::Value& object, const char* name);
[[nodiscard]] documents::Value object_in(const documents::Value& object, const char* name);
// Those of a list that are objects.
[[nodiscard]] std::vector<documents::Value> objects_in(const documents::Value& object, const char* name);

}  // namespace refract::bench
