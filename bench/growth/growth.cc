// SPDX-License-Identifier: Apache-2.0
#include "bench/growth/growth.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "bench/measure/beside.h"

namespace refract::bench {
namespace {

constexpr double kApartMost = 0.3;  // As for the two references of a block.
constexpr double kWaitedMost =
    0.05;  // Of a point's time; the node's own threads wait for each other a little.

void add_note(GrowthPoint& point, const std::string& note) {
  point.note += (point.note.empty() ? "" : "; ") + note;
}

// Whether the ping-pong's other end never got its core: a drift of nothing is none.
bool is_silent_at(const Reference& reference) {
  return core_count() > 1 && (reference.ping_pong_ns <= 0 || reference.tcp_polling_ns <= 0);
}

// The machine as it was most of the time while a curve was measured. Not as it was at its best: a host may
// put the two cores nearer to each other for a while, and one such moment says nothing against all others.
Reference usual_of(const GrowthCurve& curve) {
  const auto median = [&curve](double Reference::* value) {
    std::vector<double> all;
    for (const GrowthPoint& point : curve.points) {
      if (point.blocks.empty()) continue;
      for (const Reference* one : {&point.blocks.back().before, &point.blocks.back().after}) {
        if (one->*value > 0) all.push_back(one->*value);
      }
    }
    return all.empty() ? 0 : spread_of(std::move(all)).median;
  };
  Reference usual;
  usual.ping_pong_ns = median(&Reference::ping_pong_ns);
  usual.tcp_polling_ns = median(&Reference::tcp_polling_ns);
  usual.memcpy_gb_per_s = median(&Reference::memcpy_gb_per_s);
  return usual;
}

}  // namespace

void GrowthPoint::add(const GrowthFigure& figure, const Reported<double>& sample) {
  if (!sample) {
    if (!failed) failed = sample.error();
    return;
  }
  auto found = std::ranges::find_if(figures, [&](const GrowthFigure& each) {
    return each.what == figure.what && each.side == figure.side;
  });
  if (found == figures.end()) found = figures.insert(figures.end(), figure);
  found->samples.push_back(*sample);
}

const GrowthFigure* GrowthPoint::find(std::string_view what, std::string_view side) const noexcept {
  const auto found = std::ranges::find_if(
      figures, [&](const GrowthFigure& each) { return each.what == what && each.side == side; });
  return found == figures.end() ? nullptr : &*found;
}

std::vector<double> GrowthPoint::ratios_of(const GrowthFigure& figure) const {
  std::vector<double> ratios;
  const GrowthFigure* over = figure.over.empty() ? nullptr : find(figure.what, figure.over);
  if (over == nullptr) return ratios;
  const size_t count = std::min(figure.samples.size(), over->samples.size());
  for (size_t i = 0; i < count; ++i) {
    if (over->samples[i] > 0) ratios.push_back(figure.samples[i] / over->samples[i]);
  }
  return ratios;
}

std::string_view text(GrowthAxis axis) noexcept {
  constexpr std::array kNames = {"keys", "connections", "shards", "sizes"};
  return kNames[static_cast<size_t>(axis)];
}

bool GrowthRun::is_wanted(GrowthAxis axis) const noexcept {
  return options.only.empty() || std::ranges::find(options.only, axis) != options.only.end();
}

std::vector<uint64_t> GrowthRun::places(uint64_t least, uint64_t most) const {
  std::vector<uint64_t> places;
  for (int step = 0;; ++step) {
    const double exact = static_cast<double>(least) *
                         std::pow(10, static_cast<double>(step) / std::max(options.steps_a_decade, 1));
    // One digit is enough for a place, and reads better: 3,000 and not 3,162.
    const double digit = std::pow(10, std::floor(std::log10(exact) + 1e-9));
    const auto place = static_cast<uint64_t>(std::round(exact / digit) * digit);
    if (place >= most) break;
    if (places.empty() || place > places.back()) places.push_back(place);
  }
  places.push_back(most);
  return chosen(std::move(places));
}

std::vector<uint64_t> GrowthRun::chosen(std::vector<uint64_t> places) const {
  if (!options.at.empty()) return options.at;
  return places;
}

Reported<> measure_turns(const GrowthRun& run, GrowthPoint& point, const GrowthTurn& turn, Over over) {
  const BarOptions& options = run.bars.options;
  const std::string note = point.note;
  for (int attempt = 1; attempt == 1 || (point.is_disturbed && attempt <= options.attempts); ++attempt) {
    point.figures.clear();
    point.note = note;
    Block block;
    block.before = run.bars.references.measure();
    const uint64_t begin_ns = now_ns();
    const uint64_t waited_ns = family_waited_ns();
    for (int number = 0; number <= options.alternations; ++number) {
      if (const Reported<> done = turn(point, static_cast<uint64_t>(number)); !done) return done;
      if (point.failed) return report(*point.failed);
      if (number == 0) point.figures.clear();
    }
    const double waited = static_cast<double>(family_waited_ns() - waited_ns) /
                          static_cast<double>(std::max<uint64_t>(now_ns() - begin_ns, 1));
    block.after = run.bars.references.measure();
    const double apart = drift(block.before, block.after, over);
    const bool is_silent = is_silent_at(block.before) || is_silent_at(block.after);
    block.accepted = apart <= kApartMost && waited <= kWaitedMost && !is_silent;
    point.blocks.push_back(block);
    point.is_disturbed = !block.accepted;
    if (apart > kApartMost) add_note(point, fmt::format("references {:.0f} % apart", 100 * apart));
    if (is_silent) add_note(point, "others had core 1 while the references were measured");
    if (waited > kWaitedMost) {
      add_note(point, fmt::format("others had the cores for {:.0f} % of the time", 100 * waited));
    }
  }
  return {};
}

void mark_apart(GrowthCurve& curve, Over over) {
  const Reference usual = usual_of(curve);
  for (GrowthPoint& point : curve.points) {
    if (point.blocks.empty() || point.is_disturbed) continue;
    const Block& block = point.blocks.back();
    const double apart = std::max(drift(block.before, usual, over), drift(block.after, usual, over));
    if (apart <= kApartMost) continue;
    point.is_disturbed = true;
    add_note(point,
             fmt::format("the machine was {:.0f} % off what it mostly was in this curve", 100 * apart));
  }
}

Reported<std::vector<GrowthCurve>> run_growth(const GrowthRun& run) {
  struct Row {
    GrowthAxis axis;
    Reported<GrowthCurve> (*measure)(const GrowthRun& run);
    Over over;
  };
  constexpr std::array kRows = {Row{GrowthAxis::kKeys, measure_growth_by_keys, Over::kSharedMemory},
                                Row{GrowthAxis::kConnections, measure_growth_by_connections, Over::kTcp},
                                Row{GrowthAxis::kShards, measure_growth_by_shards, Over::kTcp},
                                Row{GrowthAxis::kSizes, measure_growth_by_sizes, Over::kSharedMemory}};
  std::vector<GrowthCurve> curves;
  for (const Row& row : kRows) {
    if (!run.is_wanted(row.axis)) continue;
    Reported<GrowthCurve> curve = row.measure(run);
    if (!curve) return report(curve.error());
    mark_apart(*curve, row.over);
    curves.push_back(std::move(*curve));
  }
  return curves;
}

}  // namespace refract::bench
