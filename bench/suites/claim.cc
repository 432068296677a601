// SPDX-License-Identifier: Apache-2.0
#include "bench/suites/claim.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

namespace refract::bench {
namespace {

// The worst first.
constexpr std::array kVerdicts = {Verdict::kFailed,      Verdict::kFallsShort, Verdict::kDisturbed,
                                  Verdict::kNotMeasured, Verdict::kNotJudged,  Verdict::kHolds};

// A number that is no result is not shown as one; the JSON has the samples.
BarResult shown(const ClaimedBar& claimed) {
  BarResult result = claimed.result;
  if (result.verdict == Verdict::kDisturbed) result.outcome.samples.clear();
  return result;
}

std::string conclusion_of(const ClaimResult& result) {
  const Verdict verdict = result.verdict();
  if (verdict != Verdict::kDisturbed) return std::string(text(verdict));
  return "disturbed: no result; run it again when the machine is quiet";
}

}  // namespace

Verdict ClaimResult::verdict() const noexcept {
  for (const Verdict verdict : kVerdicts) {
    if (std::ranges::any_of(bars, [&](const auto& each) { return each->result.verdict == verdict; })) {
      return verdict;
    }
  }
  return Verdict::kNotMeasured;
}

bool was_disturbed(const Outcome& outcome) noexcept {
  return outcome.is_disturbed || (!outcome.blocks.empty() && !outcome.blocks.back().accepted);
}

std::unique_ptr<ClaimedBar> claimed_bar(const Suite& suite, size_t index) {
  auto claimed = std::make_unique<ClaimedBar>();
  claimed->bar = *find_bar(suite.bars[index]);
  claimed->promise = claimed->bar.promise;
  if (!suite.limits.empty()) {
    claimed->bar.limit = suite.limits[index];
    claimed->promise =
        fmt::format("{} {:g}{}{}", claimed->bar.sense == Sense::kAtLeast ? "at least" : "at most",
                    claimed->bar.limit, claimed->bar.unit.empty() ? "" : " ", claimed->bar.unit);
  }
  claimed->bar.promise = claimed->promise;
  claimed->result.bar = &claimed->bar;
  return claimed;
}

Reported<ClaimResult> measure_claim(const Suite& suite, BarRun& run) {
  ClaimResult all;
  for (size_t i = 0; i < suite.bars.size(); ++i) {
    if (find_bar(suite.bars[i]) == nullptr) {
      return report(Code::kInvalidArgument, fmt::format("{}: no bar is '{}'", suite.name, suite.bars[i]));
    }
    std::unique_ptr<ClaimedBar> claimed = claimed_bar(suite, i);
    claimed->result = measure_bar(claimed->bar, run);
    const bool is_judged =
        claimed->result.verdict == Verdict::kHolds || claimed->result.verdict == Verdict::kFallsShort;
    if (is_judged && was_disturbed(claimed->result.outcome)) claimed->result.verdict = Verdict::kDisturbed;
    all.bars.push_back(std::move(claimed));
  }
  return all;
}

std::string command_of(const Suite& suite) {
  return fmt::format("build/bin/refract-bench suite {}", suite.name);
}

std::string lines_of(const Suite& suite, const ClaimResult& result) {
  std::string lines = fmt::format("{}\nclaim    {}\nagain    {}\n\n{}\n", suite.title, suite.claim,
                                  command_of(suite), heading());
  std::vector<BarResult> results;
  for (const auto& claimed : result.bars) {
    results.push_back(shown(*claimed));
    lines += line_of(results.back()) + "\n";
  }
  return lines + fmt::format("\nverdict  {}\n\n{}", conclusion_of(result), details_of(results));
}

void add_to(Findings& findings, const Suite& suite, const ClaimResult& result) {
  std::vector<BarResult> results;
  results.reserve(result.bars.size());
  for (const auto& claimed : result.bars) results.push_back(claimed->result);
  findings.facts[suite.name] = {
      {"claim", suite.claim}, {"again", command_of(suite)}, {"verdict", text(result.verdict())}};
  findings.sections.push_back(section_of(results));
  findings.sections.back().title = suite.title;
}

}  // namespace refract::bench
