// SPDX-License-Identifier: Apache-2.0
// What a run of the bars found: as lines for people, and as a section of findings.
#pragma once

#include <string>
#include <vector>

#include "bench/bars/bars.h"
#include "bench/report/findings.h"

namespace refract::bench {

struct BarResult {
  const Bar* bar = nullptr;
  Outcome outcome;
  Verdict verdict = Verdict::kNotMeasured;
};

// What the machine lacks leaves a bar not measured; everything else that keeps it from its number fails it.
[[nodiscard]] BarResult measure_bar(const Bar& bar, BarRun& run);

// "get-latency  get on shm, ...  1.12 x (1.09..1.20)  at most 1.30  holds"
[[nodiscard]] std::string line_of(const BarResult& result);
// The same columns' heads.
[[nodiscard]] std::string heading();
// What the lines do not say: the parts of each ratio, notes, references of each block. Several lines.
[[nodiscard]] std::string details_of(const std::vector<BarResult>& results);

[[nodiscard]] Section section_of(const std::vector<BarResult>& results);
[[nodiscard]] Findings findings_of(const std::vector<BarResult>& results);

}  // namespace refract::bench
