// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/kv_results.h"

#include <fmt/core.h>

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "bench/report/findings.h"

namespace refract::bench {

std::string served_rate_text(double per_second) {
  if (per_second >= 1e6) return fmt::format("{:.2f} M/s", per_second * 1e-6);
  return fmt::format("{:.1f} k/s", per_second * 1e-3);
}

std::string oddities_of(const WorkloadResult& result) {
  std::string text;
  const auto add = [&](uint64_t count, const char* what) {
    if (count > 0) text += fmt::format("; {} {}", count, what);
  };
  add(result.missing, "found nothing");
  add(result.inserted, "keys inserted");
  add(result.repeated, "inserts put a key again, as the room for new ones was used");
  add(result.retried, "writes tried again");
  if (result.scanned > 0) add(result.scanned, "entries scanned");
  add(result.overloaded, "refused or not answered in time");
  add(result.unserved, "due but never begun");
  return text;
}

namespace {

constexpr std::array kShares = {0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999};

double us(uint64_t ns) {
  return static_cast<double>(ns) * 1e-3;
}

std::string mix_text(double get_share) {
  if (get_share >= 1) return "gets";
  if (get_share <= 0) return "puts";
  return fmt::format("{:.3g} % gets, the rest puts,", get_share * 100);
}

std::string quantiles_of(const Histogram& latency) {
  return fmt::format("p50 {:.2f}  p90 {:.2f}  p99 {:.2f}  p99.9 {:.2f}  max {:.2f}",
                     us(latency.quantile(0.5)), us(latency.quantile(0.9)), us(latency.quantile(0.99)),
                     us(latency.quantile(0.999)), us(latency.max()));
}

std::string disturbance_of(const KvPoint& point) {
  if (!point.is_disturbed()) return "";
  return fmt::format("; disturbed: references {:.0f} % apart", 100 * point.drift);
}

std::string sweep_lines_of(const KvSide& side) {
  if (side.sweep.empty()) return "";
  std::string lines = "  offered      served       latency from when due, us\n";
  for (const KvPoint& point : side.sweep) {
    lines += fmt::format("  {:<12} {:<12} {}{}{}{}\n", served_rate_text(point.offered),
                         served_rate_text(point.result.per_second()), quantiles_of(point.result.latency_ns),
                         oddities_of(point.result), point.share > 1 ? "; past saturation" : "",
                         disturbance_of(point));
  }
  return lines;
}

std::string lines_of(const KvSide& side, double value_bytes) {
  const Spread rates = spread_of(side.rates);
  std::string lines =
      fmt::format("{} ({}): {} ({} to {})", side.name, side.how, served_rate_text(rates.median),
                  served_rate_text(rates.min), served_rate_text(rates.max));
  if (value_bytes >= 1024) lines += fmt::format(", {:.2f} GB/s of values", rates.median * value_bytes * 1e-9);
  lines += fmt::format("; {} operations in {:.2f} s{}\n", side.sum.operations, side.sum.seconds,
                       oddities_of(side.sum));
  lines += fmt::format("  latency, us: {}\n", quantiles_of(side.sum.latency_ns));
  return lines + sweep_lines_of(side);
}

// Beside each other, where there are more than ours and one peer.
std::string table_of(const KvLoad& load, const KvResult& result) {
  std::string lines = fmt::format("{:<16}{:<32} {:>8} {:>8} {:>8} {:>8}  x {}\n", "", "operations a second",
                                  "p50 us", "p99 us", "trips", "server", result.sides[result.base].name);
  for (const KvSide& side : result.sides) {
    const Spread rates = spread_of(side.rates);
    const std::string rate = load.turns == 1
                                 ? served_rate_text(rates.median)
                                 : fmt::format("{} ({} to {})", served_rate_text(rates.median),
                                               served_rate_text(rates.min), served_rate_text(rates.max));
    const std::optional<double> server_ns = side.server_ns_per_operation();
    lines +=
        fmt::format("{:<16}{:<32} {:>8.2f} {:>8.2f} {:>8.2f} {:>8}  {:.2f}{}\n", side.name, rate,
                    us(side.sum.latency_ns.quantile(0.5)), us(side.sum.latency_ns.quantile(0.99)),
                    side.requests_per_operation(), server_ns ? fmt::format("{:.2f}", *server_ns * 1e-3) : "-",
                    result.over_base(side), oddities_of(side.sum));
  }
  lines +=
      "trips: requests that an operation sent, each a round trip; server: its processor time an operation, "
      "us, looking for work included\n";
  for (const KvSide& side : result.sides) {
    lines += fmt::format("{:<16}{}; served by {}\n", side.name, side.how, side.served_by);
  }
  for (const KvSide& side : result.sides) {
    if (!side.sweep.empty()) lines += fmt::format("{}\n{}", side.name, sweep_lines_of(side));
  }
  return lines;
}

// Whether there is anything besides our store by one path, and one peer.
bool is_comparison(const KvLoad& load, const KvResult& result) {
  return result.sides.size() > (load.beside.empty() ? 1U : 2U) || !load.has(kOurs);
}

void add_counts(Section& section, const std::string& who, const std::string& name, const Counts& counts,
                const Point& point) {
  if (counts.operations == 0) return;
  const auto add = [&](std::string_view what, double value) {
    Point each = point;
    each.samples = {value};
    section
        .series_of(
            fmt::format("{}'s {} an operation{}", who, what, counts.has_kernel ? "" : ", outside the kernel"),
            name, "")
        .points.push_back(std::move(each));
  };
  add("cycles", counts.cycles_per_operation());
  add("instructions", counts.instructions_per_operation());
}

// Of all turns at one place.
void add_oddities(std::vector<Detail>& details, const WorkloadResult& result, const std::string& place) {
  const auto add = [&](std::string_view name, double value, std::string_view unit) {
    if (value <= 0) return;
    details.push_back(
        {fmt::format("{}{}{}", place, place.empty() ? "" : ": ", name), value, std::string(unit)});
  };
  add("operations", static_cast<double>(result.operations), "");
  add("seconds", result.seconds, "s");
  add("missing", static_cast<double>(result.missing), "");
  add("overloaded", static_cast<double>(result.overloaded), "");
  add("unserved", static_cast<double>(result.unserved), "");
  add("inserted", static_cast<double>(result.inserted), "");
  add("repeated", static_cast<double>(result.repeated), "");
  add("scanned", static_cast<double>(result.scanned), "");
  add("retried", static_cast<double>(result.retried), "");
}

// One in so many operations takes longer than the quantile: an axis on which 0.9 lies as far from 0.99 as
// that from 0.999.
Section quantiles_of(const KvResult& result) {
  Section section{.title = "Latency by quantile", .axis = "quantile"};
  for (const KvSide& side : result.sides) {
    const Histogram& latency = side.sum.latency_ns;
    Series& series = section.series_of("latency", side.name, "ns");
    for (const double share : kShares) {
      series.points.push_back({.x = 1 / (1 - share),
                               .place = fmt::format("{:.4g} %", share * 100),
                               .samples = {static_cast<double>(latency.quantile(share))}});
    }
    series.details = {{"mean", latency.mean(), "ns"}, {"highest", static_cast<double>(latency.max()), "ns"}};
  }
  return section;
}

void add_rate(Section& section, const KvSide& side, const KvPoint& point) {
  const auto add = [&](std::string_view what, std::string_view name, std::string_view unit, double value) {
    section.series_of(what, name, unit)
        .points.push_back({.x = point.offered,
                           .place = served_rate_text(point.offered),
                           .samples = {value},
                           .is_disturbed = point.is_disturbed()});
  };
  const WorkloadResult& result = point.result;
  const auto latency = [&](double share) { return static_cast<double>(result.latency_ns.quantile(share)); };
  add("latency", side.name + ", median", "ns", latency(0.5));
  add("latency", side.name + ", p99", "ns", latency(0.99));
  add("latency", side.name + ", p99.9", "ns", latency(0.999));
  add("served", side.name, "/s", result.per_second());
  add("refused", side.name, "", static_cast<double>(result.overloaded));
  add("never begun", side.name, "", static_cast<double>(result.unserved));
}

Section rates_of(const KvResult& result) {
  Section section{.title = "Latency under a rate",
                  .how =
                      "Operations are due at moments of their own, whether or not the store keeps up, and a "
                      "latency counts from when an operation was due. Where a curve leaves the floor is "
                      "where the store is saturated.",
                  .axis = "offered"};
  for (const KvSide& side : result.sides) {
    for (const KvPoint& point : side.sweep) add_rate(section, side, point);
  }
  return section;
}

}  // namespace

std::string heading_of(const KvLoad& load, bool is_bound) {
  const WorkloadOptions& workload = load.workload;
  std::string lines = fmt::format(
      "{} of {} keys{}, {} + {} B; {} client{}, {} in flight each in batches of {}, {}{}\n",
      load.ycsb != nullptr ? fmt::format("YCSB {} ({}),", load.ycsb->letter, load.ycsb->what)
                           : mix_text(workload.get_share),
      workload.keys, workload.skew > 0 ? fmt::format(" by Zipf {}", workload.skew) : "", workload.key_bytes,
      workload.value_bytes, load.clients, load.clients == 1 ? "" : "s", load.driver.depth, load.driver.batch,
      text(load.driver.waiting),
      workload.rate > 0
          ? fmt::format(", {} due, latency from when each was due", served_rate_text(workload.rate))
          : ", as fast as possible, latency from the call");
  return lines + (is_bound
                      ? "each client and each server's thread has a core of its own; servers take turns\n"
                      : "clients and servers share cores as the system sees fit\n");
}

std::string counts_of(const KvResult& result) {
  std::string lines;
  const auto text_of = [](const Counts& counts) {
    if (counts.operations == 0) return fmt::format("{:>10} {:>12}", "-", "-");
    return fmt::format("{:>10.0f} {:>12.0f}{}", counts.cycles_per_operation(),
                       counts.instructions_per_operation(), counts.has_kernel ? "" : " outside the kernel");
  };
  for (const KvSide& side : result.sides) {
    if (side.sum.counts.operations == 0 && side.server_counts.operations == 0) continue;
    lines += fmt::format("{:<16}{}  {}\n", side.name, text_of(side.sum.counts), text_of(side.server_counts));
  }
  if (lines.empty()) return "cycles and instructions: no counters here\n";
  return fmt::format("{:<16}{:>10} {:>12}  {:>10} {:>12}\n{}", "an operation", "cycles", "instructions",
                     "server's", "server's", lines);
}

std::string caveats_of(const KvLoad& load) {
  const std::string caveat = load.ycsb == nullptr ? "" : caveat_of(*load.ycsb);
  return caveat.empty() ? "" : caveat + "\n";
}

std::string lines_of(const KvLoad& load, const KvResult& result) {
  std::string lines = heading_of(load, result.is_bound);
  if (is_comparison(load, result)) {
    lines += table_of(load, result);
  } else {
    for (const KvSide& side : result.sides) {
      lines += lines_of(side, static_cast<double>(load.workload.value_bytes));
    }
    if (result.sides.size() == 2) {
      const double ours = spread_of(result.sides[0].rates).median;
      const double theirs = spread_of(result.sides[1].rates).median;
      lines += fmt::format("{} / {}, medians of {} turns each: {:.2f} x\n", kOurs, text(load.beside.front()),
                           load.turns, theirs > 0 ? ours / theirs : 0);
    }
  }
  return lines + counts_of(result) + caveats_of(load) +
         fmt::format("references: {} before; {} after\n", text(result.before), text(result.after));
}

documents::Value load_json_of(const KvLoad& load, bool is_bound) {
  const WorkloadOptions& workload = load.workload;
  return {{"keys", workload.keys},
          {"key_bytes", workload.key_bytes},
          {"value_bytes", workload.value_bytes},
          {"workload", load.ycsb == nullptr ? "" : std::string(1, load.ycsb->letter)},
          {"caveat", load.ycsb == nullptr ? "" : caveat_of(*load.ycsb)},
          {"get_share", workload.get_share},
          {"zipf", workload.skew},
          {"rate", workload.rate},
          {"depth", load.driver.depth},
          {"batch", load.driver.batch},
          {"clients", load.clients},
          {"shards", load.shards},
          {"waiting", text(load.driver.waiting)},
          {"turns", load.turns},
          {"bound", is_bound},
          {"provider", text(load.provider)}};
}

void add_sides(Section& section, const KvResult& result, const Point& point) {
  const KvSide& base = result.sides[result.base];
  for (const KvSide& side : result.sides) {
    const auto add = [&](std::string_view what, const std::string& name, std::string_view unit,
                         std::vector<double> samples) -> Series& {
      Series& series = section.series_of(what, name, unit);
      series.points.push_back(point);
      series.points.back().samples = std::move(samples);
      return series;
    };
    Series& rate = add("operations a second", side.name, "/s", side.rates);
    add_oddities(rate.details, side.sum, point.place);
    rate.note = fmt::format("{}; served by {}", side.how, side.served_by);
    if (&side != &base) {
      add("operations a second", fmt::format("{} / {}", side.name, base.name), "x", {result.over_base(side)});
    }
    add("requests an operation", side.name, "", {side.requests_per_operation()});
    if (const std::optional<double> server_ns = side.server_ns_per_operation()) {
      add("server's time an operation", side.name, "ns", {*server_ns});
    }
    add_counts(section, "client", side.name, side.sum.counts, point);
    add_counts(section, "server", side.name, side.server_counts, point);
  }
  section.blocks.push_back(
      {.of = point.place,
       .block = {.before = result.before, .after = result.after, .accepted = !point.is_disturbed}});
}

Findings findings_of(const KvLoad& load, const KvResult& result) {
  Findings findings = findings_here("kv", "load on a node", load_json_of(load, result.is_bound));
  Section section;
  add_sides(section, result, {.samples = {}});
  findings.sections.push_back(std::move(section));
  findings.sections.push_back(quantiles_of(result));
  if (Section rates = rates_of(result); !rates.series.empty()) findings.sections.push_back(std::move(rates));
  return findings;
}

}  // namespace refract::bench
