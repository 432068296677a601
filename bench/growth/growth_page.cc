// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/growth/growth.h"
#include "bench/report/page_parts.h"
#include "bench/report/page_plot.h"

namespace refract::bench {
namespace {

using Json = documents::Value;

constexpr std::array kColours = {"#3867c8", "#d1622b", "#2f9e62", "#8e44ad", "#b8860b", "#5f6b7a"};
constexpr size_t kTicksMost = 9;

// What one plot and its table show: the sides of one quantity.
struct Quantity {
  std::string what;
  std::string unit;
  std::vector<std::string> sides;
};

GrowthAxis axis_of(const Json& curve) {
  for (const GrowthAxis axis : {GrowthAxis::kConnections, GrowthAxis::kShards, GrowthAxis::kSizes}) {
    if (text_in(curve, "name") == text(axis)) return axis;
  }
  return GrowthAxis::kKeys;
}

std::vector<Json> points_of(const Json& curve) {
  std::vector<Json> points;
  for (const Json& point : list_in(curve, "points")) {
    if (point.is_object() && number_in(point, "x") > 0) points.push_back(point);
  }
  return points;
}

bool is_disturbed(const Json& point) {
  return flag_in(point, "is_disturbed");
}

std::vector<Quantity> quantities_of(const std::vector<Json>& points) {
  std::vector<Quantity> quantities;
  for (const Json& point : points) {
    for (const Json& figure : list_in(point, "figures")) {
      if (!figure.is_object()) continue;
      const std::string what = text_in(figure, "what");
      auto found = std::ranges::find(quantities, what, &Quantity::what);
      if (found == quantities.end()) {
        found =
            quantities.insert(quantities.end(), {.what = what, .unit = text_in(figure, "unit"), .sides = {}});
      }
      const std::string side = text_in(figure, "side");
      if (std::ranges::find(found->sides, side) == found->sides.end()) found->sides.push_back(side);
    }
  }
  return quantities;
}

Json figure_of(const Json& point, const Quantity& quantity, const std::string& side) {
  for (const Json& figure : list_in(point, "figures")) {
    if (figure.is_object() && text_in(figure, "what") == quantity.what && text_in(figure, "side") == side) {
      return figure;
    }
  }
  return Json::object();
}

bool is_reference(const std::vector<Json>& points, const Quantity& quantity, const std::string& side) {
  return std::ranges::any_of(points, [&](const Json& point) {
    return std::ranges::any_of(quantity.sides, [&](const std::string& other) {
      return text_in(figure_of(point, quantity, other), "over") == side;
    });
  });
}

// Places on the axis that have room for their text.
std::vector<Tick> ticks_of(const std::vector<Json>& points, GrowthAxis kind, const Axis& axis) {
  std::vector<Tick> ticks;
  const size_t step = points.size() / kTicksMost + 1;
  for (size_t i = 0; i < points.size(); i += step) {
    const double x = number_in(points[i], "x");
    ticks.push_back({axis.place(x), place_text(kind, x)});
  }
  return ticks;
}

std::string bytes_tick(double value) {
  return value_text(value, "B");
}

std::string plain_tick(double value) {
  return value_text(value, "");
}

// What was disturbed is no result, so no curve leads through it.
std::string plot_for(const std::vector<Json>& points, GrowthAxis kind, const Quantity& quantity) {
  std::vector<Curve> curves;
  for (const std::string& side : quantity.sides) {
    Curve curve;
    curve.name = side;
    curve.colour = kColours[curves.size() % kColours.size()];
    for (const Json& point : points) {
      const double value = number_in(figure_of(point, quantity, side), "median");
      if (!is_disturbed(point) && value > 0) curve.points.emplace_back(number_in(point, "x"), value);
    }
    // What others are held against is dashed.
    curve.is_dashed = is_reference(points, quantity, side);
    if (!curve.points.empty()) curves.push_back(std::move(curve));
  }
  if (curves.empty()) return "";
  const Axis axis = {
      .least = number_in(points.front(), "x"), .most = number_in(points.back(), "x"), .is_log = true};
  const auto text_of = quantity.unit == "ns"   ? time_text
                       : quantity.unit == "/s" ? rate_text
                       : quantity.unit == "B"  ? bytes_tick
                                               : plain_tick;
  return plot_of(curves, axis, ticks_of(points, kind, axis), text_of);
}

std::string cell_of(const Json& figure, const std::string& unit) {
  if (figure.empty()) return "<td></td>";
  std::string cell = fmt::format(
      R"(<td class="number">{}<br><small>{} to {}</small>)", value_text(number_in(figure, "median"), unit),
      value_text(number_in(figure, "min"), unit), value_text(number_in(figure, "max"), unit));
  if (const Json ratio = object_in(figure, "ratio"); !ratio.empty()) {
    cell += fmt::format("<br><small>{:.3g} ({:.3g} to {:.3g}) x {}</small>", number_in(ratio, "median"),
                        number_in(ratio, "min"), number_in(ratio, "max"), escaped(text_in(figure, "over")));
  }
  return cell + "</td>";
}

std::string table_for(const std::vector<Json>& points, GrowthAxis kind, const Quantity& quantity) {
  std::string rows = fmt::format("<tr><th>{}</th>", text(kind));
  for (const std::string& side : quantity.sides) rows += fmt::format("<th>{}</th>", escaped(side));
  rows += "<th></th></tr>\n";
  for (const Json& point : points) {
    rows += fmt::format("<tr><td>{}</td>", place_text(kind, number_in(point, "x")));
    for (const std::string& side : quantity.sides) {
      rows += cell_of(figure_of(point, quantity, side), escaped(quantity.unit));
    }
    rows +=
        fmt::format(R"(<td class="falls">{}</td></tr>)", is_disturbed(point) ? "disturbed, no result" : "");
    rows += '\n';
  }
  return fmt::format("<details><summary>numbers</summary><table>{}</table></details>\n", rows);
}

std::string references_of(const std::vector<Json>& points, GrowthAxis kind) {
  std::string rows;
  for (const Json& point : points) {
    for (const Json& block : list_in(point, "blocks")) {
      if (!block.is_object()) continue;
      const bool accepted = flag_in(block, "accepted");
      for (const char* moment : {"before", "after"}) {
        rows += fmt::format("<tr><td>{}</td><td>{}{}</td>{}</tr>\n", place_text(kind, number_in(point, "x")),
                            moment, accepted ? "" : ", rejected", reference_cells(object_in(block, moment)));
      }
    }
  }
  return fmt::format(
      "<details><summary>the machine before and after each "
      "point</summary><table><tr><th></th><th></th>{}</tr>\n"
      "{}</table></details>\n",
      reference_heads(), rows);
}

std::string section_of(const Json& curve) {
  const GrowthAxis kind = axis_of(curve);
  const std::vector<Json> points = points_of(curve);
  std::string section = fmt::format("<h2>{}</h2>\n<p>{}</p>\n", escaped(text_in(curve, "title")),
                                    escaped(text_in(curve, "how")));
  for (const Quantity& quantity : quantities_of(points)) {
    section += fmt::format("<h3>{}</h3>\n{}{}", escaped(quantity.what), plot_for(points, kind, quantity),
                           table_for(points, kind, quantity));
  }
  section += references_of(points, kind);
  for (const Json& gap : list_in(curve, "gaps")) {
    if (gap.is_text()) section += fmt::format("<p>Not measured: {}</p>\n", escaped(gap.as_text()));
  }
  return section;
}

}  // namespace

std::string growth_page_of(const Json& run) {
  std::string body = facts_of(object_in(run, "machine")) + facts_of(object_in(run, "load")) + R"(
<p>Each point is the median of short turns in which the sides alternate. A point during which the machine's
references moved by more than 30 %, or others had its cores, is in the tables, marked, and in no curve. All of
it ran on one host: it says nothing about a network card.</p>
)";
  for (const Json& curve : list_in(run, "curves")) {
    if (curve.is_object()) body += section_of(curve);
  }
  return page_of("Refract: growth", "Refract: how cost grows", body);
}

}  // namespace refract::bench
