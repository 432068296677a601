// SPDX-License-Identifier: Apache-2.0
// What `refract-bench kv` found, for people and for programs.
#pragma once

#include <string>

#include "bench/kv/kv_load.h"
#include "bench/kv/kv_sweep.h"
#include "bench/report/findings.h"

#include "refract/documents/value.h"

namespace refract::bench {

[[nodiscard]] std::string lines_of(const KvLoad& load, const KvResult& result);
[[nodiscard]] Findings findings_of(const KvLoad& load, const KvResult& result);

// kv_sweep_results.cc
[[nodiscard]] std::string lines_of(const KvLoad& load, const KvSweep& sweep);
[[nodiscard]] Findings findings_of(const KvLoad& load, const KvSweep& sweep);

// The parts of both: what was asked for, the clients, and where they sat.
[[nodiscard]] std::string heading_of(const KvLoad& load, bool is_bound);
// Cycles and instructions an operation, or that there are no counters here.
[[nodiscard]] std::string counts_of(const KvResult& result);
[[nodiscard]] std::string caveats_of(const KvLoad& load);
[[nodiscard]] std::string served_rate_text(double per_second);
[[nodiscard]] std::string oddities_of(const WorkloadResult& result);
[[nodiscard]] documents::Value load_json_of(const KvLoad& load, bool is_bound);
// Adds what was found of each side, and the references, at the place of `point`.
void add_sides(Section& section, const KvResult& result, const Point& point);

}  // namespace refract::bench
