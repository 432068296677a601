// SPDX-License-Identifier: Apache-2.0
// How cost grows: with keys, connections, shards, bytes of a value. Each is a curve of points; at a point the
// sides take short turns one after the other, between two measurements of the machine's references.
//
// A point is measured again when its references drifted apart, or when others had the cores that it was to
// have. One that is so at its last attempt too, or whose references lie far from those of the other points,
// stays in the list, is marked, and counts for nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/bars/bars.h"
#include "bench/measure/measure.h"
#include "bench/report/findings.h"

#include "refract/base/report.h"

namespace refract::bench {

// One quantity of one side at one point.
struct GrowthFigure {
  std::string what = {};             // "get", "gets a second": figures of one name are in one plot.
  std::string side = {};             // "refract", "table", ...
  std::string unit = {};             // "ns", "/s", "B", "%" or ""; of all figures of that name.
  std::string over = {};             // Side that it is held against; empty: none.
  std::vector<double> samples = {};  // One a turn.
};

struct GrowthPoint {
  double x = 0;
  std::vector<GrowthFigure> figures = {};
  std::vector<Block> blocks = {};  // References, those of attempts that were dropped too.
  bool is_disturbed = false;
  std::string note = {};

  std::optional<Report> failed = {};  // The first sample that could not be taken.

  // Adds a sample to that figure, which is made by its first.
  void add(const GrowthFigure& figure, const Reported<double>& sample);
  [[nodiscard]] const GrowthFigure* find(std::string_view what, std::string_view side) const noexcept;
  // Of the samples of one turn each; empty without a side to be held against.
  [[nodiscard]] std::vector<double> ratios_of(const GrowthFigure& figure) const;
};

enum class GrowthAxis : uint8_t { kKeys, kConnections, kShards, kSizes };
[[nodiscard]] std::string_view text(GrowthAxis axis) noexcept;

struct GrowthCurve {
  GrowthAxis axis = GrowthAxis::kKeys;
  std::string title = {};
  std::string how = {};  // What was done, in a few sentences: it has what one must know to read the numbers.
  std::vector<GrowthPoint> points = {};
  std::vector<std::string> gaps = {};  // What was not measured, and why.
};

struct GrowthOptions {
  std::vector<GrowthAxis> only = {};  // Empty: all.
  std::vector<uint64_t> at = {};      // Only at these places of the axis; empty: at all of them.
  uint64_t keys_max = 10'000'000;
  uint64_t connections_max = 1'000;
  uint64_t shards_max = 64;
  uint64_t bytes_max = 64 << 20;
  int steps_a_decade = 2;
  uint64_t simulated_ns = 1'000'000;  // Of each turn in virtual time.
  // Called when a point has been measured.
  std::function<void(GrowthAxis axis, const GrowthPoint& point)> on_point = {};
};

// What the four measurements share.
struct GrowthRun {
  GrowthOptions options;
  BarRun& bars;  // Timer, references, turns (alternations), how long each takes (slice_seconds).

  [[nodiscard]] bool is_wanted(GrowthAxis axis) const noexcept;
  // From `least` to `most`, both included, in about even steps of a logarithmic axis.
  [[nodiscard]] std::vector<uint64_t> places(uint64_t least, uint64_t most) const;
  // Those of `places` that are asked for.
  [[nodiscard]] std::vector<uint64_t> chosen(std::vector<uint64_t> places) const;
};

// One turn of all sides: `number` 0 warms up and is dropped.
using GrowthTurn = std::function<Reported<>(GrowthPoint& point, uint64_t number)>;
// Fills in figures, blocks and is_disturbed.
[[nodiscard]] Reported<> measure_turns(const GrowthRun& run, GrowthPoint& point, const GrowthTurn& turn,
                                       Over over = Over::kSharedMemory);

// growth_keys.cc, growth_connections.cc, growth_shards.cc, growth_sizes.cc
[[nodiscard]] Reported<GrowthCurve> measure_growth_by_keys(const GrowthRun& run);
[[nodiscard]] Reported<GrowthCurve> measure_growth_by_connections(const GrowthRun& run);
[[nodiscard]] Reported<GrowthCurve> measure_growth_by_shards(const GrowthRun& run);
[[nodiscard]] Reported<GrowthCurve> measure_growth_by_sizes(const GrowthRun& run);

// The points of a curve are held against one another, so the machine must have been the same for all: marks
// those whose references lie more than 30 % from the median of the curve.
void mark_apart(GrowthCurve& curve, Over over);

// All that are asked for. What the machine lacks for one of them stands in its gaps.
[[nodiscard]] Reported<std::vector<GrowthCurve>> run_growth(const GrowthRun& run);

// growth_results.cc
[[nodiscard]] std::string place_text(GrowthAxis axis, double x);
// A table for each quantity.
[[nodiscard]] std::string lines_of(const GrowthCurve& curve);
[[nodiscard]] Findings findings_of(const GrowthRun& run, const std::vector<GrowthCurve>& curves);

}  // namespace refract::bench
