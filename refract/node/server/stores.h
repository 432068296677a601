// SPDX-License-Identifier: Apache-2.0
// The stores that a node hosts: a row for each.
#pragma once

#include "refract/node/hosted/shard_plan.h"

namespace refract::node {

// Those of refractd.
[[nodiscard]] NodeStores built_in_stores() noexcept;

}  // namespace refract::node
