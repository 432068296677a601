// SPDX-License-Identifier: Apache-2.0
#include "tests/campaign/fault_counts.h"

#include "refract/runtime/fault.h"

namespace refract::campaign {

FaultCounts fault_counts(std::string_view name) {
  FaultCounts counts;
  for (const runtime::FaultSite* site = runtime::FaultSite::first(); site != nullptr; site = site->next()) {
    if (site->name() != name) continue;
    counts.reached += site->reached_count();
    counts.fired += site->fired_count();
  }
  return counts;
}

}  // namespace refract::campaign
