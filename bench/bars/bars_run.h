// SPDX-License-Identifier: Apache-2.0
// One bar measured and judged, and the sizes of a run: what `refract-bench bars` and the suites share.
#pragma once

#include <string_view>

#include "bench/bars/bars.h"
#include "bench/bars/bars_results.h"

namespace refract::bench {

// Null: there is none.
[[nodiscard]] const Bar* find_bar(std::string_view name);
// What the machine lacks leaves a bar not measured; everything else that keeps it from its number fails it.
[[nodiscard]] BarResult measure_bar(const Bar& bar, BarRun& run);

// Fewer and shorter rounds.
void make_quick(BarOptions& options);
// A size at which nothing is judged.
void make_small(BarOptions& options);

}  // namespace refract::bench
