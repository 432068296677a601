// SPDX-License-Identifier: Apache-2.0
#include "bench/bars/bars.h"

#include <fmt/core.h>

#include <vector>

#include "bench/bar_lists.h"

namespace refract::bench {
namespace {

// In the order of their files' names.
std::vector<Bar> all_bars() {
  std::vector<Bar> all;
  for (const auto bars_of_file : kBarLists) {
    const std::span<const Bar> more = bars_of_file();
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace

std::span<const Bar> bars() {
  static const std::vector<Bar> all = all_bars();
  return all;
}

std::string_view text(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::kHolds:
      return "holds";
    case Verdict::kFallsShort:
      return "falls short";
    case Verdict::kNotMeasured:
      return "not measured";
    case Verdict::kNotJudged:
      return "not judged";
    case Verdict::kDisturbed:
      return "disturbed";
    case Verdict::kFailed:
      break;
  }
  return "FAILED";
}

Verdict judge(const Bar& bar, const Outcome& outcome) {
  if (outcome.samples.empty()) return Verdict::kNotMeasured;
  if (outcome.is_disturbed) return Verdict::kDisturbed;
  const double median = spread_of(outcome.samples).median;
  const bool holds = bar.sense == Sense::kAtLeast ? median >= bar.limit : median <= bar.limit;
  return holds ? Verdict::kHolds : Verdict::kFallsShort;
}

Reported<Outcome> in_block(BarRun& run, const std::function<Reported<>(Outcome&)>& body, Over over) {
  std::vector<Block> blocks;
  for (int attempt = 1;; ++attempt) {
    Outcome outcome;
    Block block;
    block.before = run.references.measure();
    if (const Reported<> done = body(outcome); !done) return report(done.error());
    block.after = run.references.measure();
    const double apart = drift(block.before, block.after, over);
    block.accepted = apart <= kDriftMax;
    blocks.push_back(block);
    if (!block.accepted && attempt < run.options.attempts) continue;
    outcome.blocks = std::move(blocks);
    if (!block.accepted) {
      outcome.note += fmt::format("{}the machine is not quiet: references {:.0f} % apart at attempt {}",
                                  outcome.note.empty() ? "" : "; ", 100 * apart, attempt);
    } else if (attempt > 1) {
      outcome.note += fmt::format("{}{} block{} rejected before, references more than 30 % apart",
                                  outcome.note.empty() ? "" : "; ", attempt - 1, attempt == 2 ? "" : "s");
    }
    return outcome;
  }
}

}  // namespace refract::bench
