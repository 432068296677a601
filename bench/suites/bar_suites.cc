// SPDX-License-Identifier: Apache-2.0
// How far the simulated testbed is from the ratios that the PRISM paper is remembered for. Nothing here
// depends on this machine: the numbers follow from the suite and its seed.
#include <fmt/core.h>

#include <cmath>
#include <string_view>
#include <utility>

#include "bench/bars/bars.h"
#include "bench/suites/suite.h"

namespace refract::bench {
namespace {

struct Comparison {
  Suite suite;
  SuiteResult result;
};

// Into one place, because what was compared points into the suite.
Reported<> compare(bool is_judged, Comparison& comparison) {
  Reported<Suite> suite = read_suite("prism-kv");
  if (!suite) return report(suite.error());
  comparison.suite = std::move(*suite);
  if (!is_judged) make_small(comparison.suite);
  Reported<SuiteResult> result = run_suite(comparison.suite, SuiteFabric::kSim);
  if (!result) return report(result.error());
  comparison.result = std::move(*result);
  return {};
}

Reported<Outcome> measure_ratio(const BarRun& run, std::string_view what, std::string_view over) {
  // The same for every row, so it is run once.
  static Comparison comparison;
  static const Reported<> compared_all = compare(run.options.judged, comparison);
  if (!compared_all) return report(compared_all.error());
  for (const Compared& compared : comparison.result.compared) {
    if (compared.figure->what != what || compared.figure->over != over) continue;
    Outcome outcome;
    outcome.samples = {100 * std::abs(compared.difference)};
    outcome.details = {{"ours", compared.ours, "x"}, {"paper", compared.figure->paper, "x"}};
    outcome.note = fmt::format("simulated, seed {}: 'refract-bench suite {}' shows everything",
                               comparison.suite.seed, comparison.suite.name);
    return outcome;
  }
  return report(Code::kNotFound, fmt::format("the suite compares no {} with {}", what, over));
}

const BarRows kRows = {
    {"sim-prism-get", "PRISM-KV's get / Pilaf's, simulated, off the paper's 0.75", "at most 15 %",
     Sense::kAtMost, 15, "%",
     [](BarRun& run) { return measure_ratio(run, "get-latency", "pilaf-hardware"); }},
    {"sim-prism-get-soft", "the same, Pilaf in software, off about 0.45", "at most 15 %", Sense::kAtMost, 15,
     "%", [](BarRun& run) { return measure_ratio(run, "get-latency", "pilaf-software"); }},
    {"sim-prism-peak", "gets a second, PRISM-KV / Pilaf, simulated, off 1.22", "at most 15 %", Sense::kAtMost,
     15, "%", [](BarRun& run) { return measure_ratio(run, "ycsb-c-peak", "pilaf-hardware"); }},
};

}  // namespace
}  // namespace refract::bench
