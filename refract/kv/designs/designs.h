// SPDX-License-Identifier: Apache-2.0
// The table of all published designs: adding one is a folder here and a row in designs.cc.
#pragma once

#include <span>
#include <string_view>

#include "refract/kv/designs/design.h"

namespace refract::kv::designs {

[[nodiscard]] std::span<const Design> all() noexcept;
// Null: there is none of this name.
[[nodiscard]] const Design* find(std::string_view name) noexcept;

}  // namespace refract::kv::designs
