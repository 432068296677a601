// SPDX-License-Identifier: Apache-2.0
#include "bench/report/page_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "bench/report/page_parts.h"

namespace refract::bench {
namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 300;
constexpr double kLeft = 70;
constexpr double kBottom = 40;

double x_of(double place) {
  return kLeft + place * (kWidth - kLeft - 20);
}

double y_of(double place) {
  return (kHeight - kBottom) * (1 - place) + 10;
}

// One for each power of ten; whole decades, so that the grid reads as a scale.
std::vector<Tick> decades_of(const Axis& axis, std::string (*text_of)(double)) {
  std::vector<Tick> ticks;
  for (double value = axis.least; value <= axis.most * 1.01; value *= 10) {
    ticks.push_back({axis.place(value), text_of(value)});
  }
  return ticks;
}

// The decades round all values of the curves.
Axis value_axis(const std::vector<Curve>& curves, double floor) {
  double least = 1e15;
  double most = floor;
  for (const Curve& curve : curves) {
    for (const auto& [x, y] : curve.points) {
      least = std::min(least, std::max(y, floor));
      most = std::max(most, y);
    }
  }
  least = std::min(least, most);
  return {.least = std::pow(10, std::floor(std::log10(least))),
          .most = std::pow(10, std::ceil(std::log10(most * 1.001))),
          .is_log = true};
}

}  // namespace

const char* colour_of(size_t side) noexcept {
  constexpr std::array kColours = {"#3867c8", "#d1622b", "#2f9e6e", "#9b4fb8", "#b8962e", "#5f6b7a"};
  return kColours[side % kColours.size()];
}

double Axis::place(double value) const {
  const auto at = [this](double x) { return is_log ? std::log10(std::max(x, 1e-12)) : x; };
  const double span = at(most) - at(least);
  return span > 0 ? std::clamp((at(value) - at(least)) / span, 0.0, 1.0) : 0;
}

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

std::string flow_text(double bytes_per_second) {
  return bytes_per_second >= 1e9 ? fmt::format("{:.3g} GB/s", bytes_per_second * 1e-9)
                                 : fmt::format("{:.3g} MB/s", bytes_per_second * 1e-6);
}

std::string plot_of(const std::vector<Curve>& curves, const Axis& x_axis, const std::vector<Tick>& x_ticks,
                    std::string (*text_of)(double value), double least) {
  const Axis y_axis = value_axis(curves, least);
  std::string svg =
      fmt::format(R"(<svg viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img">)", kWidth, kHeight + 20);
  for (const Tick& tick : decades_of(y_axis, text_of)) {
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
      points += fmt::format("{:.1f},{:.1f} ", x_of(x_axis.place(x)), y_of(y_axis.place(std::max(y, least))));
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

}  // namespace refract::bench
