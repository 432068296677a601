// SPDX-License-Identifier: Apache-2.0
#include "bench/txn/txn_results.h"

#include <fmt/core.h>

#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

namespace refract::bench {
namespace {

std::string spread_rate_text(const Spread& rates) {
  const auto one = [](double rate) {
    return rate >= 1e6 ? fmt::format("{:.2f} M/s", rate * 1e-6) : fmt::format("{:.1f} k/s", rate * 1e-3);
  };
  return fmt::format("{} ({} to {})", one(rates.median), one(rates.min), one(rates.max));
}

double median_in(const std::vector<double>& samples) {
  return spread_of(samples).median;
}
double median_in_us(const std::vector<double>& samples) {
  return median_in(samples) * 1e-3;
}

// By turns, so that what moved both sides drops out.
std::vector<double> turn_ratios(const std::vector<double>& ones, const std::vector<double>& others) {
  std::vector<double> found;
  for (size_t i = 0; i < ones.size() && i < others.size(); ++i) found.push_back(ones[i] / others[i]);
  return found;
}

std::string what_runs(const TxnLoad& load) {
  const TxnMix& mix = load.mix;
  std::string text;
  if (mix.workload == TxnWorkload::kYcsbT) {
    text = fmt::format("YCSB-T: {} of {} keys are read and written{}, 16 + {} B", mix.keys_each, mix.groups,
                       mix.skew > 0 ? fmt::format(", by Zipf {}", mix.skew) : "", mix.value_bytes);
  } else {
    text = fmt::format("SmallBank: {} accounts, 90 % of transactions at 4 % of them, 16 + {} B an entry",
                       mix.groups, mix.value_bytes);
  }
  if (load.nodes > 1) text += fmt::format("; {} nodes", load.nodes);
  if (mix.far_share >= 0) {
    text += fmt::format(", {:.3g} % of transactions of several keys over nodes", mix.far_share * 100);
  }
  return text;
}

documents::Value facts_of(const TxnLoad& load, const TxnResult& result) {
  const TxnMix& mix = load.mix;
  return {{"workload", text(mix.workload)},
          {"provider", text(load.provider)},
          {"groups", mix.groups},
          {"keys_each", mix.keys_each},
          {"zipf", mix.skew},
          {"value_bytes", mix.value_bytes},
          {"clients", load.clients},
          {"shards", load.shards},
          {"nodes", load.nodes},
          {"far_percent", mix.far_share < 0 ? -1 : mix.far_share * 100},
          {"seconds", load.seconds},
          {"rounds", load.rounds},
          {"bound", result.is_bound}};
}

}  // namespace

std::string lines_of(const TxnLoad& load, const TxnResult& result) {
  const TxnSideResult& base = result.sides.front();
  std::string lines =
      fmt::format("{}; {} client{} in one thread, {}; {} turn{} of {} s a side\n", what_runs(load),
                  load.clients, load.clients == 1 ? "" : "s", text(load.provider), load.rounds,
                  load.rounds == 1 ? "" : "s", load.seconds);
  lines += fmt::format("{:<12}{:<38} {:>8} {:>8} {:>8} {:>10} {:>9}  x {}\n", "", "transactions a second",
                       "p50 us", "p99 us", "p99.9", "conflicts", "attempts", base.name);
  for (const TxnSideResult& side : result.sides) {
    const Spread ratio = spread_of(turn_ratios(side.rates, base.rates));
    lines += fmt::format(
        "{:<12}{:<38} {:>8.1f} {:>8.1f} {:>8.1f} {:>8.2f} % {:>9.3f}  {:.2f} ({:.2f} to {:.2f})\n", side.name,
        spread_rate_text(spread_of(side.rates)), median_in_us(side.p50_ns), median_in_us(side.p99_ns),
        median_in_us(side.p999_ns), median_in(side.conflicts_percent), median_in(side.attempts), ratio.median,
        ratio.min, ratio.max);
  }
  lines += "conflicts: attempts that met others, of all; attempts: of each transaction\n";
  for (const TxnSideResult& side : result.sides) {
    lines += fmt::format("{:<12}{}; {} committed", side.name, side.how, side.all.committed);
    if (load.mix.workload == TxnWorkload::kSmallBank) {
      lines += fmt::format(", {} refused for want of money", side.all.refused);
    }
    lines += fmt::format(", at most {} attempts; the sum is right\n", side.all.attempts_most);
  }
  if (!result.has_references) return lines;
  return lines + fmt::format("references: {} before; {} after\n", text(result.before), text(result.after));
}

Findings findings_of(const TxnLoad& load, const TxnResult& result) {
  Findings findings = findings_here("txn", what_runs(load), facts_of(load, result));
  Section section{.title = "Transactions", .how = "A point has one sample a turn."};
  const TxnSideResult& base = result.sides.front();
  for (const TxnSideResult& side : result.sides) {
    Series& rate = section.add("transactions a second", side.name, "/s", side.rates);
    rate.note = side.how;
    rate.details = {{"committed", static_cast<double>(side.all.committed), ""},
                    {"refused", static_cast<double>(side.all.refused), ""},
                    {"most attempts", static_cast<double>(side.all.attempts_most), ""},
                    {"sum", static_cast<double>(side.sum), ""}};
    section.add("latency, median", side.name, "ns", side.p50_ns);
    section.add("latency, p99", side.name, "ns", side.p99_ns);
    section.add("latency, p99.9", side.name, "ns", side.p999_ns);
    section.add("attempts of a transaction", side.name, "", side.attempts);
    section.add("conflicts, of all attempts", side.name, "%", side.conflicts_percent);
    if (&side == &base) continue;
    section.add("transactions a second", fmt::format("{} / {}", side.name, base.name), "x",
                turn_ratios(side.rates, base.rates));
  }
  if (result.has_references) {
    section.blocks.push_back({.of = "all", .block = {result.before, result.after, true}});
  }
  findings.sections.push_back(std::move(section));
  return findings;
}

}  // namespace refract::bench
