// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "bench/report/findings.h"
#include "bench/report/page_plot.h"

#include "refract/documents/json.h"

namespace refract::bench {
namespace {

using Json = documents::Value;

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

constexpr size_t kTicksMost = 9;

// The series of one quantity, and the places of their points in order.
struct Quantity {
  std::string_view what;
  std::vector<const Series*> series;
  std::vector<std::pair<double, std::string_view>> places;

  [[nodiscard]] bool has_axis() const noexcept { return places.size() > 1 || !places.front().second.empty(); }
};

std::vector<Quantity> quantities_of(const Section& section) {
  std::vector<Quantity> quantities;
  for (const Series& series : section.series) {
    if (series.limit || series.points.empty()) continue;
    auto found = std::ranges::find(quantities, series.what, &Quantity::what);
    if (found == quantities.end())
      found = quantities.insert(found, {.what = series.what, .series = {}, .places = {}});
    found->series.push_back(&series);
    for (const Point& point : series.points) {
      const std::pair<double, std::string_view> place = {point.x, point.place};
      if (std::ranges::find(found->places, place) == found->places.end()) found->places.push_back(place);
    }
  }
  for (Quantity& quantity : quantities) std::ranges::sort(quantity.places);
  return quantities;
}

const Point* point_at(const Series& series, const std::pair<double, std::string_view>& place) {
  const auto found = std::ranges::find_if(series.points, [&](const Point& point) {
    return point.x == place.first && point.place == place.second;
  });
  return found == series.points.end() ? nullptr : &*found;
}

// What was disturbed is no result, so no curve leads through it. A ratio beside times is in the table alone.
std::string plot_for(const Quantity& quantity) {
  const std::string& unit = quantity.series.front()->unit;
  std::vector<Curve> curves;
  for (const Series* series : quantity.series) {
    if (series->unit != unit) continue;
    Curve curve{.name = series->name,
                .colour = colour_of(curves.size()),
                .is_dashed = series->is_reference,
                .points = {}};
    for (const Point& point : series->points) {
      const double value = spread_of(point.samples).median;
      if (!point.is_disturbed && is_drawable(point.x) && is_drawable(value)) {
        curve.points.emplace_back(point.x, value);
      }
    }
    std::ranges::sort(curve.points);
    if (!curve.points.empty()) curves.push_back(std::move(curve));
  }
  if (curves.empty() || quantity.places.size() < 2) return "";
  const Axis axis{
      .least = quantity.places.front().first, .most = quantity.places.back().first, .is_log = true};
  std::vector<Tick> ticks;
  // Only so many that each has room for its text.
  const size_t step = quantity.places.size() / kTicksMost + 1;
  for (size_t i = 0; i < quantity.places.size(); i += step) {
    ticks.push_back({axis.place(quantity.places[i].first), escaped(quantity.places[i].second)});
  }
  return plot_of(curves, axis, ticks, unit);
}

std::string cell_of(const Point* point, const std::string& unit) {
  if (point == nullptr || point->samples.empty()) return "<td></td>";
  const Spread spread = spread_of(point->samples);
  std::string cell = fmt::format(R"(<td class="number">{})", escaped(value_text(spread.median, unit)));
  if (point->samples.size() > 1) {
    cell += fmt::format("<br><small>{} to {}</small>", escaped(value_text(spread.min, unit)),
                        escaped(value_text(spread.max, unit)));
  }
  return cell + "</td>";
}

// A row for each place.
std::string table_over(const Section& section, const Quantity& quantity) {
  std::string rows = fmt::format("<tr><th>{}</th>", escaped(section.axis));
  for (const Series* series : quantity.series) rows += fmt::format("<th>{}</th>", escaped(series->name));
  rows += "<th></th></tr>\n";
  for (const auto& place : quantity.places) {
    rows += fmt::format("<tr><td>{}</td>", escaped(place.second));
    std::string_view note;
    bool is_disturbed = false;
    for (const Series* series : quantity.series) {
      const Point* point = point_at(*series, place);
      rows += cell_of(point, series->unit);
      if (point == nullptr) continue;
      is_disturbed = is_disturbed || point->is_disturbed;
      if (!point->note.empty()) note = point->note;
    }
    rows += fmt::format("<td><span class=\"falls\">{}</span> <small>{}</small></td></tr>\n",
                        is_disturbed ? "disturbed, no result" : "", escaped(note));
  }
  return fmt::format("<details open><summary>numbers</summary><table>{}</table></details>\n", rows);
}

// Quantities without an axis share a table, in which each has a row, and each name a column.
std::string table_of_single(const std::vector<Quantity>& quantities) {
  std::vector<std::string_view> names;
  for (const Quantity& quantity : quantities) {
    if (quantity.has_axis()) continue;
    for (const Series* series : quantity.series) {
      if (std::ranges::find(names, series->name) == names.end()) names.push_back(series->name);
    }
  }
  if (names.empty()) return "";
  std::string rows = "<tr><th></th>";
  for (const std::string_view name : names) rows += fmt::format("<th>{}</th>", escaped(name));
  rows += "</tr>\n";
  for (const Quantity& quantity : quantities) {
    if (quantity.has_axis()) continue;
    rows += fmt::format("<tr><td>{}</td>", escaped(quantity.what));
    for (const std::string_view name : names) {
      const auto found = std::ranges::find(quantity.series, name, &Series::name);
      rows +=
          found == quantity.series.end() ? "<td></td>" : cell_of(&(*found)->points.front(), (*found)->unit);
    }
    rows += "</tr>\n";
  }
  return fmt::format("<table>{}</table>\n", rows);
}

std::string details_of(const Series& series) {
  std::string details;
  for (const Detail& detail : series.details) {
    details += fmt::format("{}{} {:.4g} {}", details.empty() ? "" : ", ", escaped(detail.name), detail.value,
                           escaped(detail.unit));
  }
  return details;
}

std::string small(const std::string& text) {
  return text.empty() ? "" : fmt::format("<small>{}</small>\n", text);
}

const char* style_of(std::string_view verdict) {
  if (verdict == "holds" || verdict == "within") return "holds";
  return verdict == "falls short" || verdict.starts_with("OFF") ? "falls" : "open";
}

// Text beside a picture, or above it where the page is narrow: a column of a table would leave the text ten
// letters.
std::string bar_of(const Series& series) {
  std::vector<double> samples;
  for (const Point& point : series.points) {
    samples.insert(samples.end(), point.samples.begin(), point.samples.end());
  }
  return fmt::format(
      R"(<section class="bar"><div><h3>{}{}{}</h3>
<p><b class="{}">{}</b> {}; {}</p>
{}{}</div>
<div>{}</div></section>
)",
      escaped(series.what), series.name.empty() ? "" : ": ", escaped(series.name),
      style_of(series.limit->verdict), escaped(series.limit->verdict),
      samples.empty() ? "-" : escaped(spread_text(samples, series.unit)), escaped(series.limit->text),
      small(details_of(series)), small(escaped(series.note)), strip_of(samples, *series.limit));
}

std::string notes_of(const Section& section) {
  std::string items;
  for (const Series& series : section.series) {
    const std::string details = details_of(series);
    if (series.limit || (series.note.empty() && details.empty())) continue;
    items += fmt::format("<li>{}, {}: {}{}{}</li>\n", escaped(series.name), escaped(series.what),
                         escaped(series.note), series.note.empty() || details.empty() ? "" : "; ", details);
  }
  return items.empty() ? "" : "<ul>" + items + "</ul>\n";
}

std::string reference_cells(const Reference& reference) {
  return fmt::format(R"(<td class="number">{:.0f} ns</td><td class="number">{:.1f} us</td>)"
                     R"(<td class="number">{:.1f} us</td><td class="number">{:.1f} GB/s</td>)"
                     R"(<td class="number">{:.2f}</td><td class="number">{:.1f} %</td>)",
                     reference.ping_pong_ns, reference.tcp_polling_ns * 1e-3,
                     reference.tcp_blocking_ns * 1e-3, reference.memcpy_gb_per_s, reference.load,
                     reference.steal_percent);
}

std::string blocks_of(const Section& section) {
  std::string rows;
  for (const NamedBlock& named : section.blocks) {
    const auto row = [&](std::string_view moment, const Reference& reference) {
      rows += fmt::format("<tr><td>{}</td><td>{}{}</td>{}</tr>\n", escaped(named.of), moment,
                          named.block.accepted ? "" : ", rejected", reference_cells(reference));
    };
    row("before", named.block.before);
    row("after", named.block.after);
  }
  if (rows.empty()) return "";
  return fmt::format(
      "<details><summary>the machine before and after</summary>\n<p>64 bytes there and back between two "
      "cores, over shared memory and over TCP, and a copy of 4 MiB. What has references more than 30 % apart "
      "is measured again, or is disturbed.</p>\n<table><tr><th></th><th></th><th>shared memory</th>"
      "<th>tcp, polling</th><th>tcp, blocking</th><th>memcpy</th><th>load</th><th>steal</th></tr>\n"
      "{}</table></details>\n",
      rows);
}

std::string gaps_of(const Section& section) {
  std::string items;
  for (const Gap& gap : section.gaps) {
    items +=
        fmt::format("<p>Not measured: {}<br><small>{}</small></p>\n", escaped(gap.what), escaped(gap.next));
  }
  return items;
}

std::string text_of(const Section& section) {
  std::string text;
  if (!section.title.empty()) text += fmt::format("<h2>{}</h2>\n", escaped(section.title));
  if (!section.how.empty()) text += fmt::format("<p>{}</p>\n", escaped(section.how));
  for (const Series& series : section.series) {
    if (series.limit) text += bar_of(series);
  }
  const std::vector<Quantity> quantities = quantities_of(section);
  text += table_of_single(quantities);
  for (const Quantity& quantity : quantities) {
    if (!quantity.has_axis()) continue;
    text += fmt::format("<h3>{}</h3>\n{}{}", escaped(quantity.what), plot_for(quantity),
                        table_over(section, quantity));
  }
  return text + notes_of(section) + gaps_of(section) + blocks_of(section);
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

}  // namespace

std::string page_of(const Findings& findings) {
  std::string body = facts_of(findings.machine) + facts_of(findings.facts) + R"(
<p>Medians, with the lowest and the highest of short turns in which the sides alternate. Dashed: what others
are held against. A dot is one turn, a stroke the median, a dashed line the limit, with its good side shaded.
What was disturbed is in the tables, marked, and in no plot.</p>
)";
  for (const Section& section : findings.sections) body += text_of(section);
  const std::string title = escaped(findings.title);
  return fmt::format(R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Refract: {}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{}</style></head><body>
<h1>Refract: {}</h1>
{}</body></html>
)",
                     title, kStyle, title, with_wide_tables(std::move(body)));
}

Reported<std::string> html_of(const std::string& json) {
  const Reported<Findings> findings = read_findings(json);
  if (!findings) return report(findings.error());
  return page_of(*findings);
}

}  // namespace refract::bench
