// SPDX-License-Identifier: Apache-2.0
#include "bench/report/page_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

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

constexpr double kStripWidth = 420;

// From a value to pixels.
struct Scale {
  double most = 1;

  [[nodiscard]] double x(double value) const { return std::clamp(value / most, 0.0, 1.0) * kStripWidth; }
};

std::string bound_of(double bound, const Scale& scale) {
  const double x = scale.x(bound);
  return fmt::format(
      R"(<line x1="{0:.1f}" x2="{0:.1f}" y1="4" y2="30" stroke="#b3261e" stroke-dasharray="4 2"/>)"
      R"(<text x="{1:.1f}" y="41" font-size="11" text-anchor="middle">{2:.3g}</text>)",
      x, std::clamp(x, 10.0, kStripWidth - 10), bound);
}

std::string dots_of(const std::vector<double>& samples, const Scale& scale) {
  const Spread spread = spread_of(samples);
  const double low = scale.x(spread.min);
  std::string svg =
      fmt::format(R"(<rect x="{:.1f}" y="15" width="{:.1f}" height="6" fill="#3867c8" opacity=".45"/>)", low,
                  std::max(scale.x(spread.max) - low, 1.0));
  for (const double sample : samples) {
    svg +=
        fmt::format(R"(<circle cx="{:.1f}" cy="18" r="2.5" fill="#3867c8" opacity=".7"/>)", scale.x(sample));
  }
  return svg + fmt::format(
                   R"(<line x1="{0:.1f}" x2="{0:.1f}" y1="9" y2="27" stroke="#1f3f86" stroke-width="2.5"/>)",
                   scale.x(spread.median));
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

std::string strip_of(const std::vector<double>& samples, const Limit& limit) {
  const double bound = std::max(limit.at_least.value_or(0), limit.at_most.value_or(0));
  const Scale scale{.most = std::max({bound * 1.6, spread_of(samples).max * 1.1, 1e-9})};
  const double from = limit.at_least ? scale.x(*limit.at_least) : 0;
  // Where there is no limit, no side is the good one.
  const double to = limit.at_most ? scale.x(*limit.at_most) : limit.at_least ? kStripWidth : 0;
  std::string svg = fmt::format(R"(<svg viewBox="-4 0 {} 44" width="{}" height="44" role="img">)",
                                kStripWidth + 8, kStripWidth + 8);
  svg += fmt::format(R"(<rect x="{:.1f}" y="8" width="{:.1f}" height="20" fill="#2f9e62" opacity=".16"/>)",
                     from, std::max(to - from, 0.0));
  svg += fmt::format(R"(<line x1="0" x2="{}" y1="28" y2="28" stroke="#8a93a3"/>)", kStripWidth);
  if (limit.at_least) svg += bound_of(*limit.at_least, scale);
  if (limit.at_most) svg += bound_of(*limit.at_most, scale);
  if (!samples.empty()) svg += dots_of(samples, scale);
  return svg + "</svg>";
}

}  // namespace refract::bench
