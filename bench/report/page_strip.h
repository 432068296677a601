// SPDX-License-Identifier: Apache-2.0
// Samples beside their limit, as SVG, for the page.
#pragma once

#include <string>
#include <vector>

#include "bench/report/findings.h"

namespace refract::bench {

// From 0 to beyond whatever is largest: each bound as a line and what is good between them shaded, a dot for
// each sample, their range as a bar and their median as a stroke.
[[nodiscard]] std::string strip_of(const std::vector<double>& samples, const Limit& limit);

}  // namespace refract::bench
