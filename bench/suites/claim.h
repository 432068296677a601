// SPDX-License-Identifier: Apache-2.0
// A sentence of README.md and the bars by which it is shown: measured together, judged together, and with the
// command that does it again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/bars/bars.h"
#include "bench/bars/bars_results.h"
#include "bench/suites/suite.h"

#include "refract/base/report.h"

namespace refract::bench {

// A bar under the limit that the claim names, else its own.
struct ClaimedBar {
  Bar bar;
  std::string promise;  // In words; the bar refers to it.
  BarResult result;     // Likewise to the bar.
};

struct ClaimResult {
  std::vector<std::unique_ptr<ClaimedBar>> bars;
  // The worst of its bars': a claim holds when all of them do.
  [[nodiscard]] Verdict verdict() const noexcept;
};

// REQUIRES: the suite is one of bars, and parse_suite() took it.
[[nodiscard]] Reported<ClaimResult> measure_claim(const Suite& suite, BarRun& run);
// What in_block had to accept at its last attempt, although the machine was not the same before and after, is
// no result either.
[[nodiscard]] bool was_disturbed(const Outcome& outcome) noexcept;
[[nodiscard]] std::unique_ptr<ClaimedBar> claimed_bar(const Suite& suite, size_t index);
// "build/bin/refract-bench suite NAME"
[[nodiscard]] std::string command_of(const Suite& suite);

// What was disturbed comes without a number.
[[nodiscard]] std::string lines_of(const Suite& suite, const ClaimResult& result);
void add_to(Findings& findings, const Suite& suite, const ClaimResult& result);

}  // namespace refract::bench
