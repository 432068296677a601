// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>

#include "bench/growth/growth.h"
#include "bench/measure/machine.h"
#include "bench/report/page_plot.h"
#include "bench/report/results.h"

#include "refract/documents/json.h"

namespace refract::bench {
namespace {

using Json = documents::Value;

constexpr size_t kPlaceWidth = 12;
constexpr size_t kCellWidth = 36;

std::string bytes_text(double bytes) {
  constexpr double kUnit = 1024;
  if (bytes >= kUnit * kUnit) return fmt::format("{:.4g} MiB", bytes / kUnit / kUnit);
  return bytes >= kUnit ? fmt::format("{:.4g} KiB", bytes / kUnit) : fmt::format("{:.3g} B", bytes);
}

std::string cell_of(const GrowthPoint& point, const GrowthFigure* figure) {
  if (figure == nullptr) return "-";
  const Spread spread = spread_of(figure->samples);
  std::string cell = value_text(spread.median, figure->unit);
  if (figure->samples.size() > 1) {
    cell +=
        fmt::format(" ({}..{})", value_text(spread.min, figure->unit), value_text(spread.max, figure->unit));
  }
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

Json json_of(const GrowthPoint& point) {
  Json json = {{"x", point.x}, {"is_disturbed", point.is_disturbed}, {"note", point.note}};
  json["figures"] = Json::array();
  for (const GrowthFigure& figure : point.figures) {
    const Spread spread = spread_of(figure.samples);
    Json each = {{"what", figure.what},       {"side", figure.side},     {"unit", figure.unit},
                 {"samples", figure.samples}, {"median", spread.median}, {"min", spread.min},
                 {"max", spread.max}};
    if (const std::vector<double> ratios = point.ratios_of(figure); !ratios.empty()) {
      const Spread ratio = spread_of(ratios);
      each["over"] = figure.over;
      each["ratio"] = {{"median", ratio.median}, {"min", ratio.min}, {"max", ratio.max}};
    }
    json["figures"].push_back(std::move(each));
  }
  json["blocks"] = Json::array();
  for (const Block& block : point.blocks) {
    json["blocks"].push_back(
        {{"accepted", block.accepted}, {"before", json_of(block.before)}, {"after", json_of(block.after)}});
  }
  return json;
}

}  // namespace

std::string place_text(GrowthAxis axis, double x) {
  if (axis == GrowthAxis::kSizes) return bytes_text(x);
  if (x >= 1e6) return fmt::format("{:g} M", x * 1e-6);
  return x >= 1e3 ? fmt::format("{:g} k", x * 1e-3) : fmt::format("{:g}", x);
}

std::string value_text(double value, std::string_view unit) {
  if (unit == "ns") return time_text(value);
  if (unit == "/s") return rate_text(value);
  if (unit == "B") return bytes_text(value);
  return unit.empty() ? fmt::format("{:.3g}", value) : fmt::format("{:.3g} {}", value, unit);
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

std::string json_of(const GrowthRun& run, const std::vector<GrowthCurve>& curves) {
  Json json = {{"format", "refract-growth-1"},
               {"machine", json_of(this_machine())},
               {"load",
                {{"turns", run.bars.options.alternations},
                 {"turn_seconds", run.bars.options.slice_seconds},
                 {"attempts", run.bars.options.attempts},
                 {"simulated_ns", run.options.simulated_ns}}}};
  json["curves"] = Json::array();
  for (const GrowthCurve& curve : curves) {
    Json each = {
        {"name", text(curve.axis)}, {"title", curve.title}, {"how", curve.how}, {"gaps", curve.gaps}};
    each["points"] = Json::array();
    for (const GrowthPoint& point : curve.points) each["points"].push_back(json_of(point));
    json["curves"].push_back(std::move(each));
  }
  return documents::to_json_page(json);
}

}  // namespace refract::bench
