// SPDX-License-Identifier: Apache-2.0
// The stores that a node hosts: a row for each.
#pragma once

#include <span>

#include "refract/node/hosted/hosted_store.h"

namespace refract::node {

// Those of refractd.
[[nodiscard]] std::span<const StoreRow> built_in_stores() noexcept;

}  // namespace refract::node
