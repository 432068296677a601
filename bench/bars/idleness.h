// SPDX-License-Identifier: Apache-2.0
// How much processor time a node and this program take while no client asks for anything.
#pragma once

#include <cstdint>
#include <functional>

#include "bench/bars/bars.h"
#include "bench/sides/private_node.h"

namespace refract::bench {

// In ms a second, over `duration_ns`, which the calling thread spends in `idle`; before, that is called for a
// moment too, for whatever still spins.
[[nodiscard]] Outcome measure_idleness(const PrivateNode& node, uint64_t duration_ns,
                                       const std::function<void(uint64_t)>& idle);

}  // namespace refract::bench
