// SPDX-License-Identifier: Apache-2.0
#include "bench/report/results.h"

#include <fmt/core.h>

#include "refract/documents/json.h"

namespace refract::bench {
namespace {

using Json = documents::Value;

std::string measured(const BarResult& result) {
  if (result.outcome.samples.empty()) return "-";
  const Spread spread = spread_of(result.outcome.samples);
  return fmt::format("{:.3g} ({:.3g}..{:.3g}){}{}", spread.median, spread.min, spread.max,
                     result.bar->unit.empty() ? "" : " ", result.bar->unit);
}

Json json_of(const BarResult& result) {
  const Outcome& outcome = result.outcome;
  Json json = {{"name", result.bar->name},
               {"what", result.bar->what},
               {"bar", result.bar->promise},
               {"sense", result.bar->sense == Sense::kAtLeast ? "at_least" : "at_most"},
               {"limit", result.bar->limit},
               {"unit", result.bar->unit},
               {"verdict", text(result.verdict)},
               {"note", outcome.note},
               {"samples", outcome.samples}};
  if (!outcome.samples.empty()) {
    const Spread spread = spread_of(outcome.samples);
    json["median"] = spread.median;
    json["min"] = spread.min;
    json["max"] = spread.max;
  }
  json["details"] = Json::array();
  for (const Detail& detail : outcome.details) {
    json["details"].push_back({{"name", detail.name}, {"value", detail.value}, {"unit", detail.unit}});
  }
  json["blocks"] = Json::array();
  for (const Block& block : outcome.blocks) {
    json["blocks"].push_back(
        {{"accepted", block.accepted}, {"before", json_of(block.before)}, {"after", json_of(block.after)}});
  }
  return json;
}

constexpr std::string_view kColumns = "{:<20} {:<52} {:<26} {:<14} {}";

}  // namespace

Json json_of(const Reference& reference) {
  return {{"ping_pong_ns", reference.ping_pong_ns},
          {"tcp_polling_ns", reference.tcp_polling_ns},
          {"tcp_blocking_ns", reference.tcp_blocking_ns},
          {"memcpy_gb_per_s", reference.memcpy_gb_per_s},
          {"load", reference.load},
          {"steal_percent", reference.steal_percent}};
}

Json json_of(const Machine& machine) {
  return {{"commit", machine.commit}, {"compiler", machine.compiler}, {"cpu", machine.cpu},
          {"cores", machine.cores},   {"kernel", machine.kernel},     {"pages", machine.pages},
          {"memory", machine.memory}, {"date", machine.date}};
}

std::string text(const Reference& reference) {
  return fmt::format(
      "shm {:.0f} ns, tcp {:.1f} us polling, {:.1f} us blocking, {:.1f} GB/s, load {:.2f}, steal {:.1f} %",
      reference.ping_pong_ns, reference.tcp_polling_ns * 1e-3, reference.tcp_blocking_ns * 1e-3,
      reference.memcpy_gb_per_s, reference.load, reference.steal_percent);
}

std::string heading() {
  return fmt::format(kColumns, "", "what", "median (min..max)", "bar", "");
}

std::string line_of(const BarResult& result) {
  return fmt::format(kColumns, result.bar->name, result.bar->what, measured(result), result.bar->promise,
                     text(result.verdict));
}

std::string details_of(const std::vector<BarResult>& results) {
  std::string lines;
  for (const BarResult& result : results) {
    lines += fmt::format("{}:", result.bar->name);
    std::string_view separator = " ";
    for (const Detail& detail : result.outcome.details) {
      lines += fmt::format("{}{} {:.4g}{}{}", separator, detail.name, detail.value,
                           detail.unit.empty() ? "" : " ", detail.unit);
      separator = ", ";
    }
    lines += '\n';
    if (!result.outcome.note.empty()) lines += fmt::format("    {}\n", result.outcome.note);
    for (const Block& block : result.outcome.blocks) {
      lines += fmt::format("    references{}: {} before; {} after\n", block.accepted ? "" : ", rejected",
                           text(block.before), text(block.after));
    }
  }
  return lines;
}

Json run_json_of(const Machine& machine, const std::vector<BarResult>& results) {
  Json json = {{"format", "refract-bars-1"}, {"machine", json_of(machine)}, {"bars", Json::array()}};
  for (const BarResult& result : results) json["bars"].push_back(json_of(result));
  return json;
}

std::string json_of(const Machine& machine, const std::vector<BarResult>& results) {
  return documents::to_json_page(run_json_of(machine, results));
}

}  // namespace refract::bench
