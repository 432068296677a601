// SPDX-License-Identifier: Apache-2.0
// What a sweep found, for people and for programs.
#include <fmt/core.h>

#include <utility>

#include "bench/kv/kv_results.h"

namespace refract::bench {
namespace {

std::string place_text(Sweep over, uint64_t value) {
  return over == Sweep::kSize ? bytes_text(static_cast<double>(value)) : fmt::format("{}", value);
}

std::string row_of(const KvSweepPoint& point, const KvSide& side) {
  const Spread rates = spread_of(side.rates);
  const auto us = [&](double share) {
    return static_cast<double>(side.sum.latency_ns.quantile(share)) * 1e-3;
  };
  const std::string rate = fmt::format("{} ({} to {})", served_rate_text(rates.median),
                                       served_rate_text(rates.min), served_rate_text(rates.max));
  return fmt::format("{:<16}{:<34} {:>9.2f} {:>9.2f}  {:.2f}{}\n", side.name, rate, us(0.5), us(0.99),
                     point.result.over_base(side), oddities_of(side.sum));
}

void add_latencies(Section& section, const KvResult& result, const Point& point) {
  for (const auto& [text, share] :
       {std::pair("latency, median", 0.5), {"latency, p99", 0.99}, {"latency, p99.9", 0.999}}) {
    for (const KvSide& side : result.sides) {
      Series& series = section.series_of(text, side.name, "ns");
      series.points.push_back(point);
      series.points.back().samples = {static_cast<double>(side.sum.latency_ns.quantile(share))};
    }
  }
}

void add_flows(Section& section, const KvResult& result, const Point& point) {
  for (const KvSide& side : result.sides) {
    Series& series = section.series_of("bytes of values a second", side.name, "B/s");
    series.points.push_back(point);
    for (const double rate : side.rates) series.points.back().samples.push_back(rate * point.x);
  }
}

}  // namespace

std::string lines_of(const KvLoad& load, const KvSweep& sweep) {
  std::string lines = heading_of(load, sweep.is_bound);
  lines += fmt::format("over {}, medians of {} turns\n", text(sweep.over), load.turns);
  for (const KvSweepPoint& point : sweep.points) {
    const KvResult& result = point.result;
    lines += fmt::format("\n{:<9}{:<7}{:<34} {:>9} {:>9}  x {}\n", place_text(sweep.over, point.at),
                         text(sweep.over), "operations a second", "p50 us", "p99 us",
                         result.sides[result.base].name);
    for (const KvSide& side : result.sides) lines += row_of(point, side);
    lines += counts_of(result);
    if (point.keys != load.workload.keys) lines += fmt::format("of {} keys\n", point.keys);
    lines += fmt::format("references: {} before; {} after{}\n", text(result.before), text(result.after),
                         point.is_disturbed() ? fmt::format("; DISTURBED, they are {:.0f} % apart: no result",
                                                            100 * point.drift)
                                              : "");
  }
  if (!sweep.points.empty()) {
    lines += "\n";
    for (const KvSide& side : sweep.points.back().result.sides) {
      lines += fmt::format("{:<16}{}; served by {}\n", side.name, side.how, side.served_by);
    }
  }
  return lines + caveats_of(load);
}

Findings findings_of(const KvLoad& load, const KvSweep& sweep) {
  const std::string over(text(sweep.over));
  Findings findings = findings_here("kv", "load over " + over, load_json_of(load, sweep.is_bound));
  Section section{.how = "All sides took turns within each point.", .axis = over};
  for (const KvSweepPoint& at : sweep.points) {
    const Point point{.x = static_cast<double>(at.at),
                      .place = place_text(sweep.over, at.at),
                      .samples = {},
                      .is_disturbed = at.is_disturbed(),
                      .note = fmt::format("{} keys, references {:.0f} % apart", at.keys, 100 * at.drift)};
    add_sides(section, at.result, point);
    if (sweep.over == Sweep::kSize) add_flows(section, at.result, point);
    add_latencies(section, at.result, point);
  }
  findings.sections.push_back(std::move(section));
  return findings;
}

}  // namespace refract::bench
