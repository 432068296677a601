// SPDX-License-Identifier: Apache-2.0
// The page of what `refract-bench kv --sweep` wrote: curves over what it went over.
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/report/page_parts.h"
#include "bench/report/page_plot.h"

namespace refract::bench {
namespace {

using Json = documents::Value;

bool is_disturbed(const Json& point) {
  return flag_in(point, "disturbed");
}

// What a curve shows of a side at a point.
struct Quantity {
  std::string what;
  bool is_dashed = false;
  std::function<double(const Json& point, const Json& side)> of;
};

double latency_of(const Json& side, const char* quantile) {
  return number_in(object_in(object_in(side, "all"), "latency_ns"), quantile);
}

Curve& curve_named(std::vector<Curve>& curves, const std::string& name, const Quantity& quantity,
                   size_t side) {
  for (Curve& curve : curves) {
    if (curve.name == name) return curve;
  }
  return curves.emplace_back(
      Curve{.name = name, .colour = colour_of(side), .is_dashed = quantity.is_dashed, .points = {}});
}

std::string plot_over(const Json& points, const std::vector<Quantity>& quantities,
                      std::string (*text_of)(double value)) {
  std::vector<Curve> curves;
  Axis axis{.least = 1e18, .most = 1, .is_log = true};
  for (const Json& point : points) {
    if (!point.is_object()) continue;
    axis.least = std::min(axis.least, std::max(number_in(point, "at"), 1.0));
    axis.most = std::max(axis.most, number_in(point, "at"));
    // Its place on the axis stays empty.
    if (is_disturbed(point)) continue;
    size_t number = 0;
    for (const Json& side : list_in(point, "sides")) {
      if (!side.is_object()) continue;
      for (const Quantity& quantity : quantities) {
        Curve& curve = curve_named(curves, text_in(side, "name") + quantity.what, quantity, number);
        curve.points.emplace_back(number_in(point, "at"), quantity.of(point, side));
      }
      ++number;
    }
  }
  if (curves.empty()) return "<p>No point was measured without being disturbed.</p>\n";
  std::vector<Tick> ticks;
  for (const Json& point : points) {
    if (!point.is_object()) continue;
    ticks.push_back({axis.place(number_in(point, "at")), escaped(text_in(point, "text"))});
  }
  return plot_of(curves, axis, ticks, text_of);
}

std::string rows_of(const Json& point) {
  std::string rows;
  for (const Json& side : list_in(point, "sides")) {
    if (!side.is_object()) continue;
    rows += fmt::format(R"(<tr><td>{}</td><td>{}</td><td class="number">{}<br><small>{} to {}</small></td>)",
                        escaped(text_in(point, "text")), escaped(text_in(side, "name")),
                        rate_text(number_in(side, "rate_median")), rate_text(number_in(side, "rate_min")),
                        rate_text(number_in(side, "rate_max")));
    for (const char* quantile : {"p50", "p99", "p999"}) {
      rows += fmt::format(R"(<td class="number">{}</td>)", time_text(latency_of(side, quantile)));
    }
    rows += fmt::format(R"(<td class="number">{:.2f}</td>{}</tr>)", number_in(side, "over_base"),
                        is_disturbed(point) ? R"(<td class="falls">disturbed</td>)" : "<td></td>");
  }
  return rows;
}

std::string reference_rows(const Json& point) {
  std::string rows;
  const Json references = object_in(point, "references");
  for (const char* moment : {"before", "after"}) {
    rows += fmt::format("<tr><td>{}</td><td>{}</td>{}</tr>\n", escaped(text_in(point, "text")), moment,
                        reference_cells(object_in(references, moment)));
  }
  return rows;
}

}  // namespace

std::string kv_sweep_page_of(const Json& run) {
  const Json points = list_in(run, "points");
  const std::string over = text_in(run, "over");
  const Quantity rate = {.what = "",
                         .of = [](const Json&, const Json& side) { return number_in(side, "rate_median"); }};
  const Quantity flow = {.what = "", .of = [](const Json& point, const Json& side) {
                           return number_in(side, "rate_median") * number_in(point, "at");
                         }};
  const auto latency = [](const char* what, const char* quantile, bool is_dashed) {
    return Quantity{.what = what, .is_dashed = is_dashed, .of = [quantile](const Json&, const Json& side) {
                      return latency_of(side, quantile);
                    }};
  };
  std::string rows;
  std::string references;
  for (const Json& point : points) {
    if (!point.is_object()) continue;
    rows += rows_of(point);
    references += reference_rows(point);
  }
  const std::string flows =
      over == "size" ? "<h2>Bytes of values a second</h2>\n" + plot_over(points, {flow}, flow_text) : "";
  const std::string body = fmt::format(
      R"({}{}<p>All sides took turns within each point. A point whose references lie more than
30 % apart is disturbed: it stands in the table, and is not drawn.</p>
<h2>Operations a second over {}</h2>
{}{}<h2>Latency over {}</h2>
{}<table>
<tr><th>{}</th><th></th><th>rate</th><th>p50</th><th>p99</th><th>p99.9</th><th>x base</th><th></th></tr>
{}</table>
<h2>References round each point</h2>
<table><tr><th>{}</th><th></th>{}</tr>
{}</table>
)",
      facts_of(object_in(run, "machine")), facts_of(object_in(run, "load")), escaped(over),
      plot_over(points, {rate}, rate_text), flows, escaped(over),
      plot_over(points, {latency(", median", "p50", true), latency(", p99", "p99", false)}, time_text),
      escaped(over), rows, escaped(over), reference_heads(), references);
  return page_of("Refract: load", "Refract: load over " + escaped(over), body);
}

}  // namespace refract::bench
