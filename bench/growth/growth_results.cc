// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>

#include "bench/growth/growth.h"
#include "bench/report/findings.h"

namespace refract::bench {
namespace {

constexpr size_t kPlaceWidth = 12;
constexpr size_t kCellWidth = 36;

std::string cell_of(const GrowthPoint& point, const GrowthFigure* figure) {
  if (figure == nullptr) return "-";
  std::string cell = spread_text(figure->samples, figure->unit);
  const std::vector<double> ratios = point.ratios_of(*figure);
  if (!ratios.empty()) cell += fmt::format(" {:.3g} x", spread_of(ratios).median);
  return cell;
}

// Each once, in the order in which they first come.
std::vector<const GrowthFigure*> first_of_each(const GrowthCurve& curve, std::string_view what) {
  std::vector<const GrowthFigure*> firsts;
  for (const GrowthPoint& point : curve.points) {
    for (const GrowthFigure& figure : point.figures) {
      if (!what.empty() && figure.what != what) continue;
      const bool is_known = std::ranges::any_of(firsts, [&](const GrowthFigure* each) {
        return what.empty() ? each->what == figure.what : each->side == figure.side;
      });
      if (!is_known) firsts.push_back(&figure);
    }
  }
  return firsts;
}

std::string table_of(const GrowthCurve& curve, std::string_view what) {
  const std::vector<const GrowthFigure*> sides = first_of_each(curve, what);
  std::string lines = fmt::format("{:<{}}", text(curve.axis), kPlaceWidth);
  for (const GrowthFigure* side : sides) {
    const std::string head =
        side->over.empty() ? side->side : fmt::format("{} (x {})", side->side, side->over);
    lines += fmt::format(" {:<{}}", head, kCellWidth);
  }
  lines += '\n';
  for (const GrowthPoint& point : curve.points) {
    lines += fmt::format("{:<{}}", place_text(curve.axis, point.x), kPlaceWidth);
    for (const GrowthFigure* side : sides) {
      lines += fmt::format(" {:<{}}", cell_of(point, point.find(what, side->side)), kCellWidth);
    }
    lines += point.is_disturbed ? " DISTURBED, no result\n" : "\n";
  }
  return lines;
}

void add_point(Section& section, const GrowthPoint& point, const std::string& place) {
  const auto point_of = [&](std::vector<double> samples) {
    return Point{.x = point.x,
                 .place = place,
                 .samples = std::move(samples),
                 .is_disturbed = point.is_disturbed,
                 .note = point.note};
  };
  for (const GrowthFigure& figure : point.figures) {
    section.series_of(figure.what, figure.side, figure.unit).points.push_back(point_of(figure.samples));
    std::vector<double> ratios = point.ratios_of(figure);
    if (ratios.empty()) continue;
    section.series_of(figure.what, fmt::format("{} / {}", figure.side, figure.over), "x")
        .points.push_back(point_of(std::move(ratios)));
  }
  for (const Block& block : point.blocks) section.blocks.push_back({.of = place, .block = block});
}

Section section_of(const GrowthCurve& curve) {
  Section section{.title = curve.title, .how = curve.how, .axis = std::string(text(curve.axis))};
  for (const GrowthPoint& point : curve.points) {
    add_point(section, point, place_text(curve.axis, point.x));
  }
  for (const GrowthPoint& point : curve.points) {
    for (const GrowthFigure& figure : point.figures) {
      if (point.find(figure.what, figure.over) == nullptr) continue;
      section.series_of(figure.what, figure.over, figure.unit).is_reference = true;
    }
  }
  for (const std::string& gap : curve.gaps) section.gaps.push_back({.what = gap});
  return section;
}

}  // namespace

std::string place_text(GrowthAxis axis, double x) {
  if (axis == GrowthAxis::kSizes) return bytes_text(x);
  if (x >= 1e6) return fmt::format("{:g} M", x * 1e-6);
  return x >= 1e3 ? fmt::format("{:g} k", x * 1e-3) : fmt::format("{:g}", x);
}

std::string lines_of(const GrowthCurve& curve) {
  std::string lines = fmt::format("{}\n{}\n", curve.title, curve.how);
  for (const GrowthFigure* what : first_of_each(curve, {})) {
    lines += fmt::format("\n{}\n{}", what->what, table_of(curve, what->what));
  }
  for (const GrowthPoint& point : curve.points) {
    if (!point.note.empty()) {
      lines += fmt::format("\n{} {}: {}\n", place_text(curve.axis, point.x), text(curve.axis), point.note);
    }
    for (const Block& block : point.blocks) {
      if (block.accepted) continue;
      lines += fmt::format("\n{} {}: references of an attempt that was dropped: {} before; {} after\n",
                           place_text(curve.axis, point.x), text(curve.axis), text(block.before),
                           text(block.after));
    }
  }
  for (const std::string& gap : curve.gaps) lines += fmt::format("\nnot measured: {}\n", gap);
  return lines + "\n";
}

Findings findings_of(const GrowthRun& run, const std::vector<GrowthCurve>& curves) {
  Findings findings = findings_here("growth", "how cost grows",
                                    {{"turns", run.bars.options.alternations},
                                     {"turn_seconds", run.bars.options.slice_seconds},
                                     {"attempts", run.bars.options.attempts},
                                     {"simulated_ns", run.options.simulated_ns}});
  for (const GrowthCurve& curve : curves) findings.sections.push_back(section_of(curve));
  return findings;
}

}  // namespace refract::bench
