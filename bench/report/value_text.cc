// SPDX-License-Identifier: Apache-2.0
// Values in the units that people read.
#include <fmt/core.h>

#include "bench/report/findings.h"

namespace refract::bench {
namespace {

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

}  // namespace

std::string bytes_text(double bytes) {
  constexpr double kUnit = 1024;
  if (bytes >= kUnit * kUnit) return fmt::format("{:.4g} MiB", bytes / kUnit / kUnit);
  return bytes >= kUnit ? fmt::format("{:.4g} KiB", bytes / kUnit) : fmt::format("{:.3g} B", bytes);
}

std::string value_text(double value, std::string_view unit) {
  if (unit == "ns") return time_text(value);
  if (unit == "/s") return rate_text(value);
  if (unit == "B/s") return flow_text(value);
  if (unit == "B") return bytes_text(value);
  return unit.empty() ? fmt::format("{:.3g}", value) : fmt::format("{:.3g} {}", value, unit);
}

std::string spread_text(const std::vector<double>& samples, std::string_view unit) {
  const Spread spread = spread_of(samples);
  const std::string median = value_text(spread.median, unit);
  if (samples.size() < 2) return median;
  return fmt::format("{} ({}..{})", median, value_text(spread.min, unit), value_text(spread.max, unit));
}

}  // namespace refract::bench
