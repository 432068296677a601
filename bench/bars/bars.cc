// SPDX-License-Identifier: Apache-2.0
#include "bench/bars/bars.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace refract::bench {
namespace {

// By the names of their files.
std::map<std::string_view, std::vector<Bar>>& registered() {
  static std::map<std::string_view, std::vector<Bar>> all;
  return all;
}

}  // namespace

BarRows::BarRows(std::initializer_list<Bar> rows, const std::source_location& where) {
  std::string_view file = where.file_name();
  file.remove_prefix(file.rfind('/') + 1);
  registered()[file] = rows;
}

std::span<const Bar> bars() {
  static const std::vector<Bar> all = [] {
    std::vector<Bar> rows;
    for (const auto& [file, of_file] : registered()) rows.insert(rows.end(), of_file.begin(), of_file.end());
    return rows;
  }();
  return all;
}

const Bar* find_bar(std::string_view name) {
  const auto found = std::ranges::find(bars(), name, &Bar::name);
  return found == bars().end() ? nullptr : &*found;
}

std::string_view text(Verdict verdict) noexcept {
  constexpr std::array kNames = {"holds",     "falls short", "not measured", "not judged",
                                 "disturbed", "FAILED",      "shown"};
  return kNames[static_cast<size_t>(verdict)];
}

Verdict judge(const Bar& bar, const Outcome& outcome) {
  if (outcome.samples.empty()) return Verdict::kNotMeasured;
  if (outcome.is_disturbed) return Verdict::kDisturbed;
  if (bar.sense == Sense::kShown) return Verdict::kShown;
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

Reported<Outcome> in_turns(BarRun& run, const std::string& note,
                           const std::function<Reported<Turn>(uint64_t turn)>& measure,
                           const TurnOptions& options) {
  const int turns = std::min(run.options.alternations, options.turns_max) + (options.warms_up ? 1 : 0);
  const auto all_turns = [&](Outcome& block) -> Reported<> {
    std::vector<std::vector<double>> values;  // Of each detail.
    for (int turn = 0; turn < turns; ++turn) {
      const Reported<Turn> found = measure(static_cast<uint64_t>(turn));
      if (!found) return report(found.error());
      if (turn == 0 && options.warms_up) continue;
      block.samples.push_back(found->sample);
      block.details = found->details;
      values.resize(found->details.size());
      for (size_t i = 0; i < values.size(); ++i) values[i].push_back(found->details[i].value);
    }
    for (size_t i = 0; i < values.size(); ++i) block.details[i].value = spread_of(values[i]).median;
    block.note = note;
    return {};
  };
  return in_block(run, all_turns, options.over);
}

Reported<Turn> ratio_of(const Ratio& ratio) {
  const auto& [ours, theirs, unit, scale] = ratio;
  if (!ours.value) return report(ours.value.error());
  if (!theirs.value) return report(theirs.value.error());
  return Turn{*ours.value / *theirs.value,
              {{ours.name, *ours.value * scale, unit}, {theirs.name, *theirs.value * scale, unit}}};
}

Reported<Turn> ratio_to_disk(BarRun& run, const Part& ours, const Part& disk) {
  Reported<Turn> turn = ratio_of({.ours = ours, .theirs = disk, .unit = "GB/s", .scale = 1e-9});
  if (!turn) return turn;
  turn->sample = std::max(turn->sample, turn->details[0].value / run.references.measure().memcpy_gb_per_s);
  return turn;
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
