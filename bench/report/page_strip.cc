// SPDX-License-Identifier: Apache-2.0
#include "bench/report/page_strip.h"

#include <fmt/core.h>

#include <algorithm>

namespace refract::bench {
namespace {

constexpr double kWidth = 420;

// From a value to pixels.
struct Scale {
  double most = 1;

  [[nodiscard]] double x(double value) const { return std::clamp(value / most, 0.0, 1.0) * kWidth; }
};

std::string bound_of(double bound, const Scale& scale) {
  const double x = scale.x(bound);
  return fmt::format(
      R"(<line x1="{0:.1f}" x2="{0:.1f}" y1="4" y2="30" stroke="#b3261e" stroke-dasharray="4 2"/>)"
      R"(<text x="{1:.1f}" y="41" font-size="11" text-anchor="middle">{2:.3g}</text>)",
      x, std::clamp(x, 10.0, kWidth - 10), bound);
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

std::string strip_of(const std::vector<double>& samples, const Limit& limit) {
  const double bound = std::max(limit.at_least.value_or(0), limit.at_most.value_or(0));
  const Scale scale{.most = std::max({bound * 1.6, spread_of(samples).max * 1.1, 1e-9})};
  const double from = limit.at_least ? scale.x(*limit.at_least) : 0;
  const double to = limit.at_most ? scale.x(*limit.at_most) : kWidth;
  std::string svg =
      fmt::format(R"(<svg viewBox="-4 0 {} 44" width="{}" height="44" role="img">)", kWidth + 8, kWidth + 8);
  svg += fmt::format(R"(<rect x="{:.1f}" y="8" width="{:.1f}" height="20" fill="#2f9e62" opacity=".16"/>)",
                     from, std::max(to - from, 0.0));
  svg += fmt::format(R"(<line x1="0" x2="{}" y1="28" y2="28" stroke="#8a93a3"/>)", kWidth);
  if (limit.at_least) svg += bound_of(*limit.at_least, scale);
  if (limit.at_most) svg += bound_of(*limit.at_most, scale);
  if (!samples.empty()) svg += dots_of(samples, scale);
  return svg + "</svg>";
}

}  // namespace refract::bench
