// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/page_parts.h"

namespace refract::bench {
namespace {

using Json = nlohmann::json;

struct Curve {
  std::string name;
  const char* colour = "#3867c8";
  bool is_dashed = false;
  std::vector<std::pair<double, double>> points;
};

// From a value to a place between 0 and 1.
struct Axis {
  double least = 0;
  double most = 1;
  bool is_log = false;

  [[nodiscard]] double place(double value) const {
    const auto at = [this](double x) { return is_log ? std::log10(std::max(x, 1e-12)) : x; };
    const double span = at(most) - at(least);
    return span > 0 ? std::clamp((at(value) - at(least)) / span, 0.0, 1.0) : 0;
  }
};

constexpr double kWidth = 760;
constexpr double kHeight = 300;
constexpr double kLeft = 70;
constexpr double kBottom = 40;

std::string time_text(double ns) {
  if (ns >= 1e9) return fmt::format("{:.3g} s", ns * 1e-9);
  if (ns >= 1e6) return fmt::format("{:.3g} ms", ns * 1e-6);
  if (ns >= 1e3) return fmt::format("{:.3g} us", ns * 1e-3);
  return fmt::format("{:.3g} ns", ns);
}

std::string rate_text(double per_second) {
  return per_second >= 1e6 ? fmt::format("{:.3g} M/s", per_second * 1e-6)
                           : fmt::format("{:.3g} k/s", per_second * 1e-3);
}

double x_of(double place) {
  return kLeft + place * (kWidth - kLeft - 20);
}

double y_of(double place) {
  return (kHeight - kBottom) * (1 - place) + 10;
}

struct Tick {
  double place = 0;
  std::string text;
};

// One for each power of ten; whole decades, so that the grid reads as a scale.
std::vector<Tick> decades_of(const Axis& axis) {
  std::vector<Tick> ticks;
  for (double value = axis.least; value <= axis.most * 1.01; value *= 10) {
    ticks.push_back({axis.place(value), time_text(value)});
  }
  return ticks;
}

// The decades round all latencies of the curves.
Axis latency_axis(const std::vector<Curve>& curves) {
  double least = 1e12;
  double most = 1;
  for (const Curve& curve : curves) {
    for (const auto& [x, y] : curve.points) {
      least = std::min(least, std::max(y, 1.0));
      most = std::max(most, y);
    }
  }
  least = std::min(least, most);
  return {.least = std::pow(10, std::floor(std::log10(least))),
          .most = std::pow(10, std::ceil(std::log10(most * 1.001))),
          .is_log = true};
}

std::string plot_of(const std::vector<Curve>& curves, const Axis& x_axis, const std::vector<Tick>& x_ticks) {
  const Axis y_axis = latency_axis(curves);
  std::string svg =
      fmt::format(R"(<svg viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img">)", kWidth, kHeight + 20);
  for (const Tick& tick : decades_of(y_axis)) {
    svg += fmt::format(R"(<line x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}" stroke="#8a93a3" opacity=".35"/>)",
                       kLeft, kWidth - 20, y_of(tick.place), y_of(tick.place));
    svg += fmt::format(R"(<text x="{}" y="{:.1f}" font-size="11" text-anchor="end">{}</text>)", kLeft - 6,
                       y_of(tick.place) + 4, tick.text);
  }
  for (const Tick& tick : x_ticks) {
    svg += fmt::format(R"(<text x="{:.1f}" y="{}" font-size="11" text-anchor="middle">{}</text>)",
                       x_of(tick.place), kHeight - kBottom + 26, tick.text);
  }
  double legend_y = 22;
  for (const Curve& curve : curves) {
    std::string points;
    for (const auto& [x, y] : curve.points) {
      points += fmt::format("{:.1f},{:.1f} ", x_of(x_axis.place(x)), y_of(y_axis.place(std::max(y, 1.0))));
    }
    const char* dashes = curve.is_dashed ? R"( stroke-dasharray="5 4")" : "";
    svg += fmt::format(R"(<polyline points="{}" fill="none" stroke="{}" stroke-width="2"{}/>)", points,
                       curve.colour, dashes);
    svg += fmt::format(R"(<line x1="{}" x2="{}" y1="{}" y2="{}" stroke="{}" stroke-width="2"{}/>)",
                       kLeft + 12, kLeft + 40, legend_y, legend_y, curve.colour, dashes);
    svg += fmt::format(R"(<text x="{}" y="{}" font-size="12">{}</text>)", kLeft + 46, legend_y + 4,
                       escaped(curve.name));
    legend_y += 16;
  }
  return svg + "</svg>\n";
}

const char* colour_of(size_t side) {
  constexpr std::array kColours = {"#3867c8", "#d1622b", "#2f9e6e", "#9b4fb8", "#b8962e", "#5f6b7a"};
  return kColours[side % kColours.size()];
}

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
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number() || !pair[1].is_number()) continue;
      curve.points.emplace_back(nines(pair[0].get<double>()), pair[1].get<double>());
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
        if (!point.is_object()) continue;
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
         "floor is where the store is saturated.</p>\n" +
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
    rows += fmt::format(R"(<td class="number">{:.0f}</td><td class="number">{:.0f}</td></tr>)",
                        number_in(point, "overloaded"), number_in(point, "unserved"));
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
        "<th>refused</th><th>never begun</th></tr>\n" +
        points + "</table>\n";
  }
  const Json references = object_in(run, "references");
  const std::string body = fmt::format(
      R"({}{}<table>
<tr><th></th><th>rate</th><th>p50</th><th>p90</th><th>p99</th><th>p99.9</th><th>max</th><th>requests an
operation</th><th>server's time an operation</th><th>x {}</th><th>served by</th></tr>
{}</table>
<h2>Latency by quantile</h2>
{}{}{}<h2>References</h2>
<table><tr><th></th>{}</tr><tr><td>before</td>{}</tr><tr><td>after</td>{}</tr></table>
)",
      facts_of(object_in(run, "machine")), facts_of(object_in(run, "load")), escaped(text_in(run, "base")),
      rows, quantile_plot(sides), sweep_plot(sides), points, reference_heads(),
      reference_cells(object_in(references, "before")), reference_cells(object_in(references, "after")));
  return page_of("Refract: load", "Refract: load on a node", body);
}

}  // namespace refract::bench
