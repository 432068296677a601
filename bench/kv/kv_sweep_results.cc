// SPDX-License-Identifier: Apache-2.0
// What a sweep found, for people and for programs.
#include <fmt/core.h>

#include "bench/kv/kv_results.h"
#include "bench/measure/machine.h"
#include "bench/report/results.h"

#include "refract/base/units.h"
#include "refract/documents/json.h"

namespace refract::bench {
namespace {

using Json = documents::Value;

std::string value_text(Sweep over, uint64_t value) {
  if (over != Sweep::kSize) return fmt::format("{}", value);
  if (value >= kMiB) return fmt::format("{} MiB", value / kMiB);
  return value >= 1024 ? fmt::format("{} KiB", value / 1024) : fmt::format("{} B", value);
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

}  // namespace

std::string lines_of(const KvLoad& load, const KvSweep& sweep) {
  std::string lines = heading_of(load, sweep.is_bound);
  lines += fmt::format("over {}, medians of {} turns\n", text(sweep.over), load.turns);
  for (const KvSweepPoint& point : sweep.points) {
    const KvResult& result = point.result;
    lines += fmt::format("\n{:<9}{:<7}{:<34} {:>9} {:>9}  x {}\n", value_text(sweep.over, point.at),
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

std::string json_of(const KvLoad& load, const KvSweep& sweep) {
  Json json = {{"format", "refract-kv-sweep-1"},
               {"machine", json_of(this_machine())},
               {"load", load_json_of(load, sweep.is_bound)},
               {"over", text(sweep.over)},
               {"points", Json::array()}};
  for (const KvSweepPoint& point : sweep.points) {
    const KvResult& result = point.result;
    Json row = {{"at", point.at},
                {"text", value_text(sweep.over, point.at)},
                {"keys", point.keys},
                {"drift", point.drift},
                {"disturbed", point.is_disturbed()},
                {"references", {{"before", json_of(result.before)}, {"after", json_of(result.after)}}},
                {"base", result.sides[result.base].name},
                {"sides", Json::array()}};
    for (const KvSide& side : result.sides) row["sides"].push_back(side_json_of(result, side));
    json["points"].push_back(std::move(row));
  }
  return documents::to_json_page(json);
}

}  // namespace refract::bench
