// SPDX-License-Identifier: Apache-2.0
// What check and restore share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "refract/documents/value.h"
#include "refract/node/durable/folder_reading.h"

namespace refract::cli {

// "1 damage", "1,234 damages".
[[nodiscard]] std::string damages_text(uint64_t count);
[[nodiscard]] documents::Value json_of(const std::vector<node::FileDamage>& damages);

}  // namespace refract::cli
