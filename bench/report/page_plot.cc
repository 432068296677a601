// SPDX-License-Identifier: Apache-2.0
#include "bench/report/page_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "bench/report/findings.h"

namespace refract::bench {
namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 300;
constexpr double kLeft = 70;
constexpr double kBottom = 40;
// Nothing that is measured lies outside.
constexpr double kLeast = 1e-12;
constexpr double kMost = 1e18;

double x_of(double place) {
  return kLeft + place * (kWidth - kLeft - 20);
}

double y_of(double place) {
  return (kHeight - kBottom) * (1 - place) + 10;
}

// One for each power of ten; whole decades, so that the grid reads as a scale.
std::vector<Tick> decades_of(const Axis& axis, std::string_view unit) {
  std::vector<Tick> ticks;
  for (double value = axis.least; value <= axis.most * 1.01; value *= 10) {
    ticks.push_back({axis.place(value), escaped(value_text(value, unit))});
  }
  return ticks;
}

// The decades round all values of the curves.
Axis value_axis(const std::vector<Curve>& curves) {
  double least = kMost;
  double most = kLeast;
  for (const Curve& curve : curves) {
    for (const auto& [x, y] : curve.points) {
      least = std::min(least, y);
      most = std::max(most, y);
    }
  }
  return {.least = std::pow(10, std::floor(std::log10(std::min(least, most)))),
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

bool is_drawable(double value) noexcept {
  return value >= kLeast && value <= kMost;
}

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    switch (letter) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += letter;
    }
  }
  return safe;
}

std::string plot_of(const std::vector<Curve>& curves, const Axis& x_axis, const std::vector<Tick>& x_ticks,
                    std::string_view unit) {
  const Axis y_axis = value_axis(curves);
  std::string svg =
      fmt::format(R"(<svg viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img">)", kWidth, kHeight + 20);
  for (const Tick& tick : decades_of(y_axis, unit)) {
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
      points += fmt::format("{:.1f},{:.1f} ", x_of(x_axis.place(x)), y_of(y_axis.place(y)));
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
