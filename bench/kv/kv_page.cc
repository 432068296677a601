// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/report/page_parts.h"
#include "bench/report/page_plot.h"

namespace refract::bench {
namespace {

using Json = documents::Value;

// "nines": 0.9 lies as far from 0.99 as that from 0.999.
double nines(double share) {
  return -std::log10(1 - std::min(share, 0.99999));
}

std::string quantile_plot(const Json& sides) {
  std::vector<Curve> curves;
  for (const Json& side : sides) {
    if (!side.is_object()) continue;
    Curve curve{.name = text_in(side, "name"), .colour = colour_of(curves.size()), .points = {}};
    for (const Json& pair : list_in(object_in(object_in(side, "all"), "latency_ns"), "quantiles")) {
      const std::span<const Json> both = pair.elements();
      if (both.size() != 2 || !both[0].is_number() || !both[1].is_number()) continue;
      curve.points.emplace_back(nines(both[0].as_number()), both[1].as_number());
    }
    curves.push_back(std::move(curve));
  }
  const Axis axis{.least = 0, .most = 4};
  std::vector<Tick> ticks;
  for (const double share : {0.5, 0.9, 0.99, 0.999, 0.9999}) {
    ticks.push_back({axis.place(nines(share)), fmt::format("{:.4g} %", share * 100)});
  }
  return plot_of(curves, axis, ticks);
}

std::string sweep_plot(const Json& sides) {
  std::vector<Curve> curves;
  double most = 0;
  size_t number = 0;
  for (const Json& side : sides) {
    if (!side.is_object()) continue;
    const char* colour = colour_of(number++);
    for (const char* quantile : {"p50", "p999"}) {
      const bool is_median = std::string_view(quantile) == "p50";
      Curve curve{.name = text_in(side, "name") + (is_median ? ", median" : ", p99.9"),
                  .colour = colour,
                  .is_dashed = is_median,
                  .points = {}};
      for (const Json& point : list_in(side, "sweep")) {
        if (!point.is_object() || flag_in(point, "disturbed")) continue;
        const double offered = number_in(point, "offered");
        most = std::max(most, offered);
        curve.points.emplace_back(offered, number_in(object_in(point, "latency_ns"), quantile));
      }
      if (!curve.points.empty()) curves.push_back(std::move(curve));
    }
  }
  if (curves.empty()) return "";
  const Axis axis{.least = 0, .most = most};
  std::vector<Tick> ticks;
  for (int fifth = 0; fifth <= 5; ++fifth) ticks.push_back({fifth / 5.0, rate_text(most * fifth / 5)});
  return "<h2>Latency under a rate</h2>\n<p>Operations are due at moments of their own, whether or not the "
         "store keeps up, and a latency counts from when an operation was due. Where a curve leaves the "
         "floor is where the store is saturated. Points that were disturbed are not drawn.</p>\n" +
         plot_of(curves, axis, ticks);
}

std::string side_row(const Json& side) {
  const Json latency = object_in(object_in(side, "all"), "latency_ns");
  std::string row = fmt::format(
      R"(<tr><td>{}<br><small>{}</small></td><td class="number">{}<br><small>{} to {}</small></td>)",
      escaped(text_in(side, "name")), escaped(text_in(side, "how")),
      rate_text(number_in(side, "rate_median")), rate_text(number_in(side, "rate_min")),
      rate_text(number_in(side, "rate_max")));
  for (const char* quantile : {"p50", "p90", "p99", "p999", "max"}) {
    row += fmt::format(R"(<td class="number">{}</td>)", time_text(number_in(latency, quantile)));
  }
  const double server_ns = number_in(side, "server_ns_per_operation");
  row += fmt::format(R"(<td class="number">{:.2f}</td><td class="number">{}</td>)",
                     number_in(side, "requests_per_operation"),
                     server_ns > 0 ? time_text(server_ns) : std::string("-"));
  row += fmt::format(R"(<td class="number">{:.2f}</td><td><small>{}</small></td>)",
                     number_in(side, "over_base"), escaped(text_in(side, "served_by")));
  return row + "</tr>\n";
}

std::string sweep_rows(const Json& side) {
  std::string rows;
  for (const Json& point : list_in(side, "sweep")) {
    if (!point.is_object()) continue;
    rows += fmt::format(R"(<tr><td>{}</td><td class="number">{}</td><td class="number">{}</td>)",
                        escaped(text_in(side, "name")), rate_text(number_in(point, "offered")),
                        rate_text(number_in(point, "per_second")));
    const Json latency = object_in(point, "latency_ns");
    for (const char* quantile : {"p50", "p99", "p999"}) {
      rows += fmt::format(R"(<td class="number">{}</td>)", time_text(number_in(latency, quantile)));
    }
    rows += fmt::format(R"(<td class="number">{:.0f}</td><td class="number">{:.0f}</td><td>{}</td></tr>)",
                        number_in(point, "overloaded"), number_in(point, "unserved"),
                        flag_in(point, "disturbed") ? "disturbed" : "");
  }
  return rows;
}

}  // namespace

std::string kv_page_of(const Json& run) {
  const Json sides = list_in(run, "sides");
  std::string rows;
  std::string points;
  for (const Json& side : sides) {
    if (!side.is_object()) continue;
    rows += side_row(side);
    points += sweep_rows(side);
  }
  if (!points.empty()) {
    points =
        "<table><tr><th></th><th>offered</th><th>served</th><th>p50</th><th>p99</th><th>p99.9</th>"
        "<th>refused</th><th>never begun</th><th></th></tr>\n" +
        points + "</table>\n";
  }
  const Json references = object_in(run, "references");
  const std::string body = fmt::format(
      R"({}{}<table>
<tr><th></th><th>rate</th><th>p50</th><th>p90</th><th>p99</th><th>p99.9</th><th>max</th><th>requests an
operation</th><th>server's time an operation</th><th>x {}</th><th>served by</th></tr>
{}</table>
{}<h2>Latency by quantile</h2>
{}{}{}<h2>References</h2>
<table><tr><th></th>{}</tr><tr><td>before</td>{}</tr><tr><td>after</td>{}</tr></table>
)",
      facts_of(object_in(run, "machine")), facts_of(object_in(run, "load")), escaped(text_in(run, "base")),
      rows, counts_of(sides), quantile_plot(sides), sweep_plot(sides), points, reference_heads(),
      reference_cells(object_in(references, "before")), reference_cells(object_in(references, "after")));
  return page_of("Refract: load", "Refract: load on a node", body);
}

}  // namespace refract::bench
