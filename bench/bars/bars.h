// SPDX-License-Identifier: Apache-2.0
// What we promise in numbers, one row each, and how a row is measured.
//
// A bar compares one number, mostly a ratio of two things measured in turn within one run, with a limit. To
// add one: a file bar_NAME.cc with its function and its row, in a BarRows.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/measure/measure.h"
#include "bench/measure/references.h"

#include "refract/base/report.h"

namespace refract::bench {

struct BarOptions {
  uint64_t entries = 1'000'000;
  uint64_t many_entries = 10'000'000;  // For the bars on memory, snapshots and restores.
  uint64_t operations = 2'000'000;     // Gets in a round; rounds of slower operations take a share of it.
  double slice_seconds = 0.25;         // Of one side's turn where turns are bounded by time.
  double path_seconds = 1.5;           // Likewise over the slow path.
  double log_seconds = 1.5;            // Likewise where a log is synced every second.
  int first_requests = 20;             // Of each side in a turn.
  uint64_t idle_ns = 3'000'000'000;
  int alternations = 7;
  int attempts = 3;    // At a block whose references drift.
  bool judged = true;  // Whether numbers mean anything at this size.
  std::string node_program;
};

// What all bars of a run share.
struct BarRun {
  BarOptions options;
  Timer timer;
  References& references;
};

struct Outcome {
  std::vector<double> samples;  // One an alternation: what the limit is about.
  std::vector<Detail> details;  // What it was computed from, medians.
  std::vector<Block> blocks;    // Those that were rejected too.
  std::string note;             // What one must know to read the number: pages, versions, oddities.
  bool is_disturbed = false;    // The machine's own doings hide what the limit is about; the note says which.
};

// kShown: there is no limit, and nothing is judged.
enum class Sense : uint8_t { kAtLeast, kAtMost, kShown };
enum class Verdict : uint8_t { kHolds, kFallsShort, kNotMeasured, kNotJudged, kDisturbed, kFailed, kShown };
[[nodiscard]] std::string_view text(Verdict verdict) noexcept;

struct Bar {
  std::string_view name;
  std::string_view what;
  std::string_view promise;
  Sense sense;
  double limit;
  std::string_view unit;  // Of samples and limit.
  Reported<Outcome> (*measure)(BarRun& run);
};

// Registers its rows. One a file, at namespace scope.
class BarRows {
 public:
  BarRows(std::initializer_list<Bar> rows,
          const std::source_location& where = std::source_location::current());
};

// Those of all files, in the order of the files' names.
[[nodiscard]] std::span<const Bar> bars();
// Null: there is none.
[[nodiscard]] const Bar* find_bar(std::string_view name);
// By the median.
[[nodiscard]] Verdict judge(const Bar& bar, const Outcome& outcome);

// Calls `body` between two measurements of the references. If these lie more than 30 % apart, what it
// measured is dropped and it is called again, up to options.attempts times; of the last attempt the outcome
// stays, with a note. `body` adds to samples and details of the outcome that it is given.
[[nodiscard]] Reported<Outcome> in_block(BarRun& run, const std::function<Reported<>(Outcome&)>& body,
                                         Over over = Over::kSharedMemory);

// What a turn found: the number that the limit is about, and what that was computed from.
struct Turn {
  double sample = 0;
  std::vector<Detail> details = {};
};
struct TurnOptions {
  Over over = Over::kSharedMemory;
  int turns_max = 1'000'000;  // Of options.alternations.
  bool warms_up = true;       // Turn 0 comes before those that count.
};
// As in_block: the samples are the turns', each detail is the median of those of its place in all turns.
[[nodiscard]] Reported<Outcome> in_turns(BarRun& run, const std::string& note,
                                         const std::function<Reported<Turn>(uint64_t turn)>& measure,
                                         const TurnOptions& options = {});

// What one side did in a turn.
struct Part {
  std::string name;
  Reported<double> value;
};
struct Ratio {
  Part ours;  // Measured first, where both are calls.
  Part theirs;
  std::string unit;  // Of the details, which are `scale` times the values.
  double scale = 1;
};
// The sample is `ours` by `theirs`.
[[nodiscard]] Reported<Turn> ratio_of(const Ratio& ratio);
// Bytes a second by those of the disk or of memory, whichever has fewer.
[[nodiscard]] Reported<Turn> ratio_to_disk(BarRun& run, const Part& ours, const Part& disk);

// Fewer and shorter rounds.
void make_quick(BarOptions& options);
// A size at which nothing is judged.
void make_small(BarOptions& options);

}  // namespace refract::bench
