// SPDX-License-Identifier: Apache-2.0
// How far the simulated testbeds are from the ratios that two papers are remembered for. Nothing here depends
// on this machine: the numbers follow from the suites and their seeds.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
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
Reported<> compare(const std::string& name, bool is_judged, Comparison& comparison) {
  Reported<Suite> suite = read_suite(name);
  if (!suite) return report(suite.error());
  comparison.suite = std::move(*suite);
  if (!is_judged) make_small(comparison.suite);
  Reported<SuiteResult> result = run_suite(comparison.suite, SuiteFabric::kSim);
  if (!result) return report(result.error());
  comparison.result = std::move(*result);
  return {};
}

// Each is run once, since it is the same for every row.
Reported<const Comparison*> prism_kv(const BarRun& run) {
  static Comparison comparison;
  static const Reported<> compared = compare("prism-kv", run.options.judged, comparison);
  if (!compared) return report(compared.error());
  return &comparison;
}

Reported<const Comparison*> plasma_rdma(const BarRun& run) {
  static Comparison comparison;
  static const Reported<> compared = compare("plasma-rdma", run.options.judged, comparison);
  if (!compared) return report(compared.error());
  return &comparison;
}

struct Wanted {
  std::string_view what;
  std::string_view system;
  std::string_view over = {};
  bool is_factor = false;  // Off by so many times, up or down; else by so many percent.
};

Reported<Outcome> find_figure(const Reported<const Comparison*>& found, const Wanted& wanted) {
  if (!found) return report(found.error());
  const Comparison& comparison = **found;
  for (const Compared& compared : comparison.result.compared) {
    const Figure& figure = *compared.figure;
    const bool is_other =
        figure.what != wanted.what || figure.system != wanted.system || figure.over != wanted.over;
    if (is_other || figure.is_at_least) continue;
    const double ratio = compared.ours / figure.paper;
    Outcome outcome;
    outcome.samples = {wanted.is_factor ? std::max(ratio, 1 / ratio) : 100 * std::abs(ratio - 1)};
    outcome.details = {{"ours", compared.ours, compared.unit}, {"paper", figure.paper, compared.unit}};
    outcome.note = fmt::format("simulated, seed {}: 'refract-bench suite {}' shows everything",
                               comparison.suite.seed, comparison.suite.name);
    return outcome;
  }
  return report(Code::kNotFound, fmt::format("the suite compares no {} of {}", wanted.what, wanted.system));
}

Reported<Outcome> of_prism(const BarRun& run, std::string_view what, std::string_view over) {
  return find_figure(prism_kv(run), {.what = what, .system = "prism-kv", .over = over});
}

// The smallest lead of read over send, and of send over socket, at any size at which they are compared.
Reported<Outcome> plasma_order(const BarRun& run) {
  const Reported<const Comparison*> comparison = plasma_rdma(run);
  if (!comparison) return report(comparison.error());
  Outcome outcome;
  double least = 1e9;
  for (const Compared& compared : (*comparison)->result.compared) {
    const Figure& figure = *compared.figure;
    if (!figure.is_at_least) continue;
    least = std::min(least, compared.ours);
    outcome.details.push_back(
        {fmt::format("{} {} / {}", figure.what, figure.system, figure.over), compared.ours, "x"});
  }
  outcome.samples = {least};
  return outcome;
}

const BarRows kRows = {
    {"sim-prism-get", "PRISM-KV's get / Pilaf's, simulated, off the paper's 0.75", "at most 15 %",
     Sense::kAtMost, 15, "%", [](BarRun& run) { return of_prism(run, "get-latency", "pilaf-hardware"); }},
    {"sim-prism-get-soft", "the same, Pilaf in software, off about 0.45", "at most 15 %", Sense::kAtMost, 15,
     "%", [](BarRun& run) { return of_prism(run, "get-latency", "pilaf-software"); }},
    {"sim-prism-peak", "gets a second, PRISM-KV / Pilaf, simulated, off 1.22", "at most 15 %", Sense::kAtMost,
     15, "%", [](BarRun& run) { return of_prism(run, "ycsb-c-peak", "pilaf-hardware"); }},
    {"sim-plasma-small", "pull of 1 KiB, send / socket, simulated, off the thesis's 1.15", "at most 15 %",
     Sense::kAtMost, 15, "%",
     [](BarRun& run) {
       return find_figure(plasma_rdma(run), {.what = "rate-1KiB", .system = "send", .over = "socket"});
     }},
    {"sim-plasma-large", "pull of 4 MiB, read / socket, simulated, off the thesis's 7", "at most 15 %",
     Sense::kAtMost, 15, "%",
     [](BarRun& run) {
       return find_figure(plasma_rdma(run), {.what = "rate-4MiB", .system = "read", .over = "socket"});
     }},
    {"sim-plasma-order", "pulls of 1 and 4 MiB, simulated: read / send and send / socket, the least",
     "at least 1", Sense::kAtLeast, 1, "x", [](BarRun& run) { return plasma_order(run); }},
    {"sim-plasma-switch", "where read overtakes send, registered each time, simulated, off 32 KiB",
     "at most 2 times", Sense::kAtMost, 2, "x",
     [](BarRun& run) {
       return find_figure(plasma_rdma(run), {.what = "switch", .system = "read", .is_factor = true});
     }},
};

}  // namespace
}  // namespace refract::bench
