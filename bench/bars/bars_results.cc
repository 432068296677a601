// SPDX-License-Identifier: Apache-2.0
#include "bench/bars/bars_results.h"

#include <fmt/core.h>

#include <utility>

namespace refract::bench {
namespace {

std::string measured(const BarResult& result) {
  if (result.outcome.samples.empty()) return "-";
  const Spread spread = spread_of(result.outcome.samples);
  return fmt::format("{:.3g} ({:.3g}..{:.3g}){}{}", spread.median, spread.min, spread.max,
                     result.bar->unit.empty() ? "" : " ", result.bar->unit);
}

constexpr std::string_view kColumns = "{:<20} {:<52} {:<26} {:<14} {}";

}  // namespace

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

std::string heading() {
  return fmt::format(kColumns, "", "what", "median (min..max)", "bar", "");
}

std::string line_of(const BarResult& result) {
  return fmt::format(kColumns, result.bar->name, result.bar->what, measured(result), result.bar->promise,
                     text(result.verdict));
}

std::string details_of(const std::vector<BarResult>& results) {
  std::string lines;
  for (const BarResult& result : results) {
    lines += fmt::format("{}:", result.bar->name);
    std::string_view separator = " ";
    for (const Detail& detail : result.outcome.details) {
      lines += fmt::format("{}{} {:.4g}{}{}", separator, detail.name, detail.value,
                           detail.unit.empty() ? "" : " ", detail.unit);
      separator = ", ";
    }
    lines += '\n';
    if (!result.outcome.note.empty()) lines += fmt::format("    {}\n", result.outcome.note);
    for (const Block& block : result.outcome.blocks) {
      lines += fmt::format("    references{}: {} before; {} after\n", block.accepted ? "" : ", rejected",
                           text(block.before), text(block.after));
    }
  }
  return lines;
}

Section section_of(const std::vector<BarResult>& results) {
  Section section{.how = "All of it ran on one host: it says nothing about a network card."};
  for (const BarResult& result : results) {
    const Bar& bar = *result.bar;
    const std::string name(bar.name);
    Limit limit{.text = std::string(bar.promise), .verdict = std::string(text(result.verdict))};
    if (bar.sense == Sense::kAtLeast) limit.at_least = bar.limit;
    if (bar.sense == Sense::kAtMost) limit.at_most = bar.limit;
    Series& series = section.series_of(bar.what, name, bar.unit);
    if (!result.outcome.samples.empty()) series.points.push_back({.samples = result.outcome.samples});
    series.limit = std::move(limit);
    series.details = result.outcome.details;
    series.note = result.outcome.note;
    for (const Block& block : result.outcome.blocks) section.blocks.push_back({.of = name, .block = block});
  }
  return section;
}

Findings findings_of(const std::vector<BarResult>& results) {
  Findings findings = findings_here("bars", "what we promise, measured", documents::Value::object());
  findings.sections.push_back(section_of(results));
  return findings;
}

}  // namespace refract::bench
