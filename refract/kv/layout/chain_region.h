// SPDX-License-Identifier: Apache-2.0
// A table's space as a region of chains: its name, and the rights that clients ask for.
#pragma once

#include <string_view>

#include "refract/prism/operation.h"

namespace refract::kv {

// The name under which clients attach to it.
inline constexpr std::string_view kChainStoreName = "kv";

// What replacing a value takes. No right to WRITE: the guard would refuse it anyway.
inline constexpr prism::ChainRights kChainWriteRights{
    prism::ChainRights::kRead | prism::ChainRights::kAtomic | prism::ChainRights::kAllocate};

}  // namespace refract::kv
