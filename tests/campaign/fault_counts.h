// SPDX-License-Identifier: Apache-2.0
// How often a place where a crash may fall was reached, and how often one fell there.
#pragma once

#include <cstdint>
#include <string_view>

namespace refract::campaign {

struct FaultCounts {
  uint64_t reached = 0;
  uint64_t fired = 0;
};
// Over all runs of this process, and all sites of that name. Zeros: there is none.
[[nodiscard]] FaultCounts fault_counts(std::string_view name);

}  // namespace refract::campaign
