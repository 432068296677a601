// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/results.h"

namespace refract::bench {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kStyle = R"(
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 62em; padding: 0 1em;
       color: #1d2430; background: #fff; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; padding: .35em .8em .35em 0; vertical-align: top;
         border-bottom: 1px solid #dde2ea; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
.holds { color: #14713d; } .falls { color: #b3261e; font-weight: 600; } .open { color: #66707f; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1em 1em; }
dd { margin: 0; } dt { color: #66707f; } small { color: #66707f; }
@media (prefers-color-scheme: dark) {
  body { color: #dfe5ee; background: #14181f; } td, th { border-color: #2d3542; }
  .holds { color: #5ccf8f; } .falls { color: #ff8a80; } svg text { fill: #dfe5ee; }
}
)";

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

// The fields of a JSON object with a value to fall back to, whatever the file holds: nothing here throws.
std::string text_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}
double number_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}
Json list_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_array() ? *found : Json::array();
}

// One strip: from 0 to beyond whatever is largest, the limit as a line with the good side shaded, a dot for
// each alternation, the range as a bar and the median as a stroke.
std::string strip_of(const Json& bar) {
  constexpr double kWidth = 420;
  const double limit = number_in(bar, "limit");
  const double most = std::max({limit * 1.6, number_in(bar, "max") * 1.1, 1e-9});
  const auto x = [&](double value) { return std::clamp(value / most, 0.0, 1.0) * kWidth; };
  const bool at_least = text_in(bar, "sense") == "at_least";
  std::string svg =
      fmt::format(R"(<svg viewBox="-4 0 {} 44" width="{}" height="44" role="img">)", kWidth + 8, kWidth + 8);
  svg += fmt::format(R"(<rect x="{:.1f}" y="8" width="{:.1f}" height="20" fill="#2f9e62" opacity=".16"/>)",
                     at_least ? x(limit) : 0, at_least ? kWidth - x(limit) : x(limit));
  svg += fmt::format(R"(<line x1="0" x2="{}" y1="28" y2="28" stroke="#8a93a3"/>)", kWidth);
  svg += fmt::format(
      R"(<line x1="{0:.1f}" x2="{0:.1f}" y1="4" y2="30" stroke="#b3261e" stroke-dasharray="4 2"/>)",
      x(limit));
  svg += fmt::format(R"(<text x="{:.1f}" y="41" font-size="11" text-anchor="middle">{:.3g}</text>)",
                     std::clamp(x(limit), 10.0, kWidth - 10), limit);
  const Json samples = list_in(bar, "samples");
  if (!samples.empty()) {
    const double low = x(number_in(bar, "min"));
    svg += fmt::format(R"(<rect x="{:.1f}" y="15" width="{:.1f}" height="6" fill="#3867c8" opacity=".45"/>)",
                       low, std::max(x(number_in(bar, "max")) - low, 1.0));
    for (const Json& sample : samples) {
      if (!sample.is_number()) continue;
      svg += fmt::format(R"(<circle cx="{:.1f}" cy="18" r="2.5" fill="#3867c8" opacity=".7"/>)",
                         x(sample.get<double>()));
    }
    svg +=
        fmt::format(R"(<line x1="{0:.1f}" x2="{0:.1f}" y1="9" y2="27" stroke="#1f3f86" stroke-width="2.5"/>)",
                    x(number_in(bar, "median")));
  }
  return svg + "</svg>";
}

std::string verdict_cell(const std::string& verdict) {
  const char* style = verdict == "holds" ? "holds" : verdict == "falls short" ? "falls" : "open";
  return fmt::format(R"(<td class="{}">{}</td>)", style, escaped(verdict));
}

std::string parts_of(const Json& bar) {
  std::string parts;
  for (const Json& detail : list_in(bar, "details")) {
    parts += fmt::format("{}{} {:.4g} {}", parts.empty() ? "" : ", ", escaped(text_in(detail, "name")),
                         number_in(detail, "value"), escaped(text_in(detail, "unit")));
  }
  return parts;
}

std::string row_of(const Json& bar) {
  const std::string unit = text_in(bar, "unit");
  std::string number = "-";
  if (!list_in(bar, "samples").empty()) {
    number = fmt::format("{:.3g} {}<br><small>{:.3g} to {:.3g}</small>", number_in(bar, "median"),
                         escaped(unit), number_in(bar, "min"), number_in(bar, "max"));
  }
  std::string row =
      fmt::format("<tr><td>{}<br><small>{}</small>", escaped(text_in(bar, "what")), parts_of(bar));
  if (const std::string note = text_in(bar, "note"); !note.empty()) {
    row += fmt::format("<br><small>{}</small>", escaped(note));
  }
  row += fmt::format(R"(</td><td class="number">{}</td><td class="number">{}</td><td>{}</td>)", number,
                     escaped(text_in(bar, "bar")), strip_of(bar));
  return row + verdict_cell(text_in(bar, "verdict")) + "</tr>\n";
}

std::string reference_cells(const Json& reference) {
  return fmt::format(R"(<td class="number">{:.0f} ns</td><td class="number">{:.1f} GB/s</td>)"
                     R"(<td class="number">{:.2f}</td><td class="number">{:.1f} %</td>)",
                     number_in(reference, "ping_pong_ns"), number_in(reference, "memcpy_gb_per_s"),
                     number_in(reference, "load"), number_in(reference, "steal_percent"));
}

std::string blocks_of(const Json& bar) {
  std::string rows;
  for (const Json& block : list_in(bar, "blocks")) {
    const bool accepted = block.is_object() && block.value("accepted", Json()) == Json(true);
    for (const char* moment : {"before", "after"}) {
      if (!block.is_object() || !block.contains(moment)) continue;
      rows += fmt::format("<tr><td>{}</td><td>{}{}</td>{}</tr>\n", escaped(text_in(bar, "name")), moment,
                          accepted ? "" : ", rejected", reference_cells(block[moment]));
    }
  }
  return rows;
}

}  // namespace

Reported<std::string> html_of(const std::string& json) {
  const Json run = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!run.is_object() || text_in(run, "format") != "refract-bars-1") {
    return report(Code::kMalformed, "this is not what 'refract-bench bars --json' writes");
  }
  std::string facts;
  std::string rows;
  std::string blocks;
  const auto machine = run.find("machine");
  if (machine != run.end() && machine->is_object()) {
    for (const auto& [name, value] : machine->items()) {
      const std::string fact = value.is_string() ? value.get<std::string>() : value.dump();
      facts += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(fact));
    }
  }
  for (const Json& bar : list_in(run, "bars")) {
    if (!bar.is_object()) continue;
    rows += row_of(bar);
    blocks += blocks_of(bar);
  }
  return fmt::format(R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Refract: bars</title>
<meta name="viewport" content="width=device-width"><style>{}</style></head><body>
<h1>Refract: what we promise, measured</h1>
<dl>{}</dl>
<p>Each dot is one alternation of both sides within one run, the stroke their median; the dashed line is the
bar, its good side shaded. Shared memory on one host: this says nothing about a network.</p>
<table><tr><th>what</th><th>median</th><th>bar</th><th></th><th></th></tr>
{}</table>
<h2>References round each block</h2>
<p>A 64-byte message there and back over shared memory between two cores, and a copy of 4 MiB. A block whose
references lie more than 30 % apart is measured again.</p>
<table><tr><th>bar</th><th></th><th>ping-pong</th><th>memcpy</th><th>load</th><th>steal</th></tr>
{}</table></body></html>
)",
                     kStyle, facts, rows, blocks);
}

}  // namespace refract::bench
