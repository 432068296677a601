// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>

#include "bench/report/page_parts.h"
#include "bench/report/results.h"

#include "refract/documents/json.h"

namespace refract::bench {
namespace {

using Json = documents::Value;

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
                         x(sample.as_number()));
    }
    svg +=
        fmt::format(R"(<line x1="{0:.1f}" x2="{0:.1f}" y1="9" y2="27" stroke="#1f3f86" stroke-width="2.5"/>)",
                    x(number_in(bar, "median")));
  }
  return svg + "</svg>";
}

const char* style_of(const std::string& verdict) {
  return verdict == "holds" ? "holds" : verdict == "falls short" ? "falls" : "open";
}

std::string small(const std::string& text) {
  return text.empty() ? "" : fmt::format("<small>{}</small>\n", text);
}

std::string parts_of(const Json& bar) {
  std::string parts;
  for (const Json& detail : list_in(bar, "details")) {
    parts += fmt::format("{}{} {:.4g} {}", parts.empty() ? "" : ", ", escaped(text_in(detail, "name")),
                         number_in(detail, "value"), escaped(text_in(detail, "unit")));
  }
  return parts;
}

// Text beside a picture, or above it where the page is narrow: a column of a table would leave the text ten
// letters.
std::string section_of(const Json& bar) {
  const std::string verdict = text_in(bar, "verdict");
  std::string number = "-";
  if (!list_in(bar, "samples").empty()) {
    number = fmt::format("{:.3g} {} ({:.3g} to {:.3g})", number_in(bar, "median"),
                         escaped(text_in(bar, "unit")), number_in(bar, "min"), number_in(bar, "max"));
  }
  return fmt::format(
      R"(<section class="bar"><div><h3>{}</h3>
<p><b class="{}">{}</b> {}; the bar: {}</p>
{}{}</div>
<div>{}</div></section>
)",
      escaped(text_in(bar, "what")), style_of(verdict), escaped(verdict), number,
      escaped(text_in(bar, "bar")), small(parts_of(bar)), small(escaped(text_in(bar, "note"))),
      strip_of(bar));
}

std::string blocks_of(const Json& bar) {
  std::string rows;
  for (const Json& block : list_in(bar, "blocks")) {
    const bool accepted = flag_in(block, "accepted");
    for (const char* moment : {"before", "after"}) {
      if (block.find(moment) == nullptr) continue;
      rows += fmt::format("<tr><td>{}</td><td>{}{}</td>{}</tr>\n", escaped(text_in(bar, "name")), moment,
                          accepted ? "" : ", rejected", reference_cells(*block.find(moment)));
    }
  }
  return rows;
}

}  // namespace

Reported<std::string> html_of(const std::string& json) {
  const Json run = documents::parse_json(json).value_or(Json());
  const std::string format = run.is_object() ? text_in(run, "format") : "";
  if (format == "refract-kv-2") return kv_page_of(run);
  if (format == "refract-kv-sweep-1") return kv_sweep_page_of(run);
  if (format == "refract-fabric-1") return fabric_page_of(run);
  if (format == "refract-growth-1") return growth_page_of(run);
  if (format != "refract-bars-1") {
    return report(Code::kMalformed,
                  "this is not what 'refract-bench bars', 'kv', 'fabric' or 'growth' writes with --json");
  }
  std::string sections;
  std::string blocks;
  for (const Json& bar : list_in(run, "bars")) {
    if (!bar.is_object()) continue;
    sections += section_of(bar);
    blocks += blocks_of(bar);
  }
  return page_of("Refract: bars", "Refract: what we promise, measured",
                 fmt::format(R"({}
<p>Each dot is one alternation of both sides within one run, the stroke their median; the dashed line is the
bar, its good side shaded. All of it ran on one host: it says nothing about a network card.</p>
{}<h2>References round each block</h2>
<p>64 bytes there and back between two cores, over shared memory and over TCP, and a copy of 4 MiB. A block
whose references lie more than 30 % apart is measured again.</p>
<table><tr><th>bar</th><th></th>{}</tr>
{}</table>
)",
                             facts_of(object_in(run, "machine")), sections, reference_heads(), blocks));
}

}  // namespace refract::bench
