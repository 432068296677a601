// SPDX-License-Identifier: Apache-2.0
// Curves over an axis, as SVG, for the pages.
#pragma once

#include <string>
#include <utility>
#include <vector>

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

[[nodiscard]] std::string time_text(double ns);
[[nodiscard]] std::string rate_text(double per_second);
[[nodiscard]] std::string flow_text(double bytes_per_second);

// The vertical axis has whole decades round all values of the curves, written by `text_of`. What is below
// `least` is drawn there.
[[nodiscard]] std::string plot_of(const std::vector<Curve>& curves, const Axis& x_axis,
                                  const std::vector<Tick>& x_ticks,
                                  std::string (*text_of)(double value) = time_text, double least = 1);

}  // namespace refract::bench
