// SPDX-License-Identifier: Apache-2.0
// The table of all published protocols: adding one is a folder here and a row in designs.cc.
#pragma once

#include <span>
#include <string_view>

#include "refract/txn/designs/design.h"

namespace refract::txn::designs {

[[nodiscard]] std::span<const Design> all() noexcept;
// Null: there is none of this name.
[[nodiscard]] const Design* find(std::string_view name) noexcept;

}  // namespace refract::txn::designs
