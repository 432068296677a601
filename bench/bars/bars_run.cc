// SPDX-License-Identifier: Apache-2.0
#include "bench/bars/bars_run.h"

#include <algorithm>
#include <utility>

namespace refract::bench {

const Bar* find_bar(std::string_view name) {
  const auto found = std::ranges::find(bars(), name, &Bar::name);
  return found == bars().end() ? nullptr : &*found;
}

BarResult measure_bar(const Bar& bar, BarRun& run) {
  Reported<Outcome> outcome = bar.measure(run);
  if (!outcome) {
    Outcome nothing;
    nothing.note = outcome.error().to_string();
    const bool lacking = outcome.error().code == Code::kUnsupported;
    return {.bar = &bar,
            .outcome = std::move(nothing),
            .verdict = lacking ? Verdict::kNotMeasured : Verdict::kFailed};
  }
  const Verdict verdict = run.options.judged ? judge(bar, *outcome) : Verdict::kNotJudged;
  return {.bar = &bar, .outcome = std::move(*outcome), .verdict = verdict};
}

void make_quick(BarOptions& options) {
  options.many_entries = 1'000'000;
  options.operations = 500'000;
  options.alternations = 5;
  options.slice_seconds = 0.15;
  options.idle_ns = 1'000'000'000;
}

void make_small(BarOptions& options) {
  options.entries = options.many_entries = 1'000;
  options.operations = 2'000;
  options.alternations = 1;
  options.attempts = 1;
  options.judged = false;
  options.slice_seconds = 0.02;
  options.path_seconds = 0.2;
  options.log_seconds = 0.2;
  options.first_requests = 2;
  options.idle_ns = 100'000'000;
}

}  // namespace refract::bench
