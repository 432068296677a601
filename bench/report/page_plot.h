// SPDX-License-Identifier: Apache-2.0
// Curves over an axis, and samples beside their limit, as SVG, for the page.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/report/findings.h"

namespace refract::bench {

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

  [[nodiscard]] double place(double value) const;
};

struct Tick {
  double place = 0;
  std::string text;
};

// Of the curves of one side.
[[nodiscard]] const char* colour_of(size_t side) noexcept;

// Text as HTML shows it.
[[nodiscard]] std::string escaped(std::string_view text);

// Whether a logarithmic axis has a place for it.
[[nodiscard]] bool is_drawable(double value) noexcept;

// The vertical axis has whole decades round all values of the curves, in that unit. REQUIRES: all values are
// drawable.
[[nodiscard]] std::string plot_of(const std::vector<Curve>& curves, const Axis& x_axis,
                                  const std::vector<Tick>& x_ticks, std::string_view unit);

// From 0 to beyond whatever is largest: each bound as a line and what is good between them shaded, a dot for
// each sample, their range as a bar and their median as a stroke.
[[nodiscard]] std::string strip_of(const std::vector<double>& samples, const Limit& limit);

}  // namespace refract::bench
