// SPDX-License-Identifier: Apache-2.0
#include "bench/report/page_parts.h"

#include <fmt/core.h>

#include "refract/documents/json.h"

namespace refract::bench {

using Json = documents::Value;

namespace {

constexpr std::string_view kStyle = R"(
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em;
       color: #1d2430; background: #fff; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; min-width: 100%; }
td, th { text-align: left; padding: .35em .8em .35em 0; vertical-align: top;
         border-bottom: 1px solid #dde2ea; }
td:first-child { min-width: 7em; } td small { display: inline-block; max-width: 40em; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
svg { max-width: 100%; height: auto; }
.bar { display: grid; grid-template-columns: minmax(22em, 1fr) minmax(14em, 27em); gap: 0 2em;
       align-items: center; border-bottom: 1px solid #dde2ea; padding: .7em 0; }
.bar h3 { font-size: 1em; margin: 0; } .bar p { margin: .1em 0; } .bar small { display: block; }
.holds { color: #14713d; } .falls { color: #b3261e; font-weight: 600; } .open { color: #66707f; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .1em 1em; }
dd { margin: 0; overflow-wrap: anywhere; } dt { color: #66707f; } small { color: #66707f; }
@media (max-width: 52em) { .bar { grid-template-columns: minmax(0, 1fr); } }
@media (prefers-color-scheme: dark) {
  body { color: #dfe5ee; background: #14181f; } td, th, .bar { border-color: #2d3542; }
  .holds { color: #5ccf8f; } .falls { color: #ff8a80; } svg text { fill: #dfe5ee; }
}
)";

}  // namespace

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

std::string text_in(const Json& object, const char* name) {
  const Json* found = object.find(name);
  return found != nullptr && found->is_text() ? found->as_text() : std::string();
}
double number_in(const Json& object, const char* name) {
  const Json* found = object.find(name);
  return found != nullptr && found->is_number() ? found->as_number() : 0;
}
Json list_in(const Json& object, const char* name) {
  const Json* found = object.find(name);
  return found != nullptr && found->is_array() ? *found : Json::array();
}

Json object_in(const Json& object, const char* name) {
  const Json* found = object.find(name);
  return found != nullptr && found->is_object() ? *found : Json::object();
}

bool flag_in(const Json& object, const char* name) {
  const Json* found = object.find(name);
  return found != nullptr && found->is_bool() && found->as_bool();
}

std::string facts_of(const Json& object) {
  std::string facts = "<dl>";
  for (const auto& [name, value] : object.members()) {
    const std::string fact = value.is_text() ? value.as_text() : documents::to_json_line(value);
    if (fact.empty()) continue;
    facts += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(fact));
  }
  return facts + "</dl>\n";
}

std::string reference_cells(const Json& reference) {
  return fmt::format(R"(<td class="number">{:.0f} ns</td><td class="number">{:.1f} us</td>)"
                     R"(<td class="number">{:.1f} us</td><td class="number">{:.1f} GB/s</td>)"
                     R"(<td class="number">{:.2f}</td><td class="number">{:.1f} %</td>)",
                     number_in(reference, "ping_pong_ns"), number_in(reference, "tcp_polling_ns") * 1e-3,
                     number_in(reference, "tcp_blocking_ns") * 1e-3, number_in(reference, "memcpy_gb_per_s"),
                     number_in(reference, "load"), number_in(reference, "steal_percent"));
}

std::string_view reference_heads() {
  return "<th>shared memory</th><th>tcp, polling</th><th>tcp, blocking</th><th>memcpy</th><th>load</th>"
         "<th>steal</th>";
}

std::string counts_of(const Json& sides) {
  std::string rows;
  for (const Json& side : sides) {
    if (!side.is_object()) continue;
    for (const char* who : {"client", "server"}) {
      const Json counts = object_in(side, fmt::format("{}_counts", who).c_str());
      if (counts.empty()) continue;
      rows += fmt::format(
          R"(<tr><td>{}</td><td>{}</td><td class="number">{:.0f}</td><td class="number">{:.0f}</td></tr>)",
          escaped(text_in(side, "name")), who, number_in(counts, "cycles_per_operation"),
          number_in(counts, "instructions_per_operation"));
    }
  }
  if (rows.empty()) return "<p>Cycles and instructions: no counters there.</p>\n";
  return "<table><tr><th></th><th></th><th>cycles an operation</th><th>instructions</th></tr>\n" + rows +
         "</table>\n";
}

// A table that is wider than the window scrolls by itself, and not the page with it.
std::string with_wide_tables(std::string body) {
  const auto put = [&body](std::string_view where, std::string_view what, size_t behind) {
    for (size_t at = body.find(where); at != std::string::npos;
         at = body.find(where, at + what.size() + where.size()))
      body.insert(at + behind, what);
  };
  constexpr std::string_view kEnd = "</table>";
  put("<table>", R"(<div class="wide">)", 0);
  put(kEnd, "</div>", kEnd.size());
  return body;
}

std::string page_of(std::string_view title, std::string_view heading, std::string_view body) {
  return fmt::format(R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{}</style></head><body>
<h1>{}</h1>
{}</body></html>
)",
                     title, kStyle, heading, with_wide_tables(std::string(body)));
}

}  // namespace refract::bench
