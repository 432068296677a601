// SPDX-License-Identifier: Apache-2.0
// What a run of the bars found: as lines for people, as JSON for programs, and as a page with plots.
#pragma once

#include <string>
#include <vector>

#include "bench/bars/bars.h"
#include "bench/measure/machine.h"

#include "refract/documents/value.h"

namespace refract::bench {

struct BarResult {
  const Bar* bar = nullptr;
  Outcome outcome;
  Verdict verdict = Verdict::kNotMeasured;
};

// "get-latency  get on shm, ...  1.12 x (1.09..1.20)  at most 1.30  holds"
[[nodiscard]] std::string line_of(const BarResult& result);
// The same columns' heads.
[[nodiscard]] std::string heading();
// What the lines do not say: the parts of each ratio, notes, references of each block. Several lines.
[[nodiscard]] std::string details_of(const std::vector<BarResult>& results);

[[nodiscard]] std::string text(const Reference& reference);

// docs/benchmarks.md explains the fields.
[[nodiscard]] documents::Value json_of(const Reference& reference);
[[nodiscard]] documents::Value json_of(const Machine& machine);
[[nodiscard]] documents::Value run_json_of(const Machine& machine, const std::vector<BarResult>& results);
[[nodiscard]] std::string json_of(const Machine& machine, const std::vector<BarResult>& results);

// A page that needs nothing but itself, from what json_of wrote, here or in kv_load.h.
[[nodiscard]] Reported<std::string> html_of(const std::string& json);

}  // namespace refract::bench
