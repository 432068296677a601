// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/report/page_parts.h"
#include "bench/report/page_plot.h"

namespace refract::bench {
namespace {

using Json = documents::Value;

constexpr std::array kColours = {"#3867c8", "#d1622b", "#2f9e62", "#8e44ad", "#b8860b", "#5f6b7a"};
constexpr double kBytesLeast = 8;
constexpr double kBytesMost = 4.0 * 1024 * 1024;

std::string size_text(double bytes) {
  if (bytes >= 1024 * 1024) return fmt::format("{:.4g} MiB", bytes / 1024 / 1024);
  return bytes >= 1024 ? fmt::format("{:.4g} KiB", bytes / 1024) : fmt::format("{:.0f} B", bytes);
}

std::vector<Tick> size_ticks(const Axis& axis) {
  std::vector<Tick> ticks;
  for (double bytes = kBytesLeast; bytes <= kBytesMost; bytes *= 8) {
    ticks.push_back({axis.place(bytes), size_text(bytes)});
  }
  return ticks;
}

double median_in(const Json& object, const char* name) {
  return number_in(object_in(object, name), "median");
}

// A curve for each operation of ours, and dashed in its colour one for each peer.
std::string plot_for(const std::vector<Json>& points, bool is_flow) {
  std::map<std::string, std::map<std::string, Curve>> curves;  // By operation, then by side.
  for (const Json& point : points) {
    const std::string operation = text_in(point, "operation");
    const double bytes = number_in(point, "bytes");
    Curve& ours = curves[operation][""];
    ours.name = operation;
    ours.points.emplace_back(bytes, median_in(point, "ours"));
    for (const Json& peer : list_in(point, "peers")) {
      if (!peer.is_object()) continue;
      const std::string name = text_in(peer, "name");
      Curve& theirs = curves[operation][name];
      theirs.name = operation + ", " + name;
      theirs.is_dashed = true;
      theirs.points.emplace_back(bytes, median_in(peer, "figure"));
    }
  }
  std::vector<Curve> all;
  size_t number = 0;
  for (auto& [operation, sides] : curves) {
    const char* colour = kColours[number++ % kColours.size()];
    for (auto& [side, curve] : sides) {
      curve.colour = colour;
      std::ranges::sort(curve.points);
      // A single point is no curve: an atomic has one size.
      if (curve.points.size() > 1) all.push_back(std::move(curve));
    }
  }
  if (all.empty()) return "";
  const Axis axis{.least = kBytesLeast, .most = kBytesMost, .is_log = true};
  return is_flow ? plot_of(all, axis, size_ticks(axis), flow_text, 1e6)
                 : plot_of(all, axis, size_ticks(axis));
}

std::string cell_of(const Json& figure, bool is_flow) {
  const auto write = is_flow ? flow_text : time_text;
  return fmt::format(R"(<td class="number">{}<br><small>{} to {}</small></td>)",
                     write(number_in(figure, "median")), write(number_in(figure, "min")),
                     write(number_in(figure, "max")));
}

std::string rows_of(const Json& point, bool is_flow) {
  const std::string head =
      fmt::format(R"(<tr><td>{}</td><td class="number">{}</td>)", escaped(text_in(point, "operation")),
                  size_text(number_in(point, "bytes")));
  const std::string ours = cell_of(object_in(point, "ours"), is_flow);
  const std::string p99 =
      is_flow ? "<td></td>"
              : fmt::format(R"(<td class="number">{}</td>)", time_text(median_in(point, "ours_p99")));
  std::string rows;
  for (const Json& peer : list_in(point, "peers")) {
    if (!peer.is_object()) continue;
    const bool is_mean = text_in(peer, "statistic") == "mean" && !is_flow;
    rows += head + (is_mean ? cell_of(object_in(point, "ours_mean"), is_flow) : ours) + p99;
    rows += fmt::format("<td>{}{}</td>", escaped(text_in(peer, "name")), is_mean ? ", means" : "");
    rows += cell_of(object_in(peer, "figure"), is_flow);
    rows += fmt::format(R"(<td class="number">{:.2f}</td></tr>)", median_in(peer, "ratio")) + "\n";
  }
  if (rows.empty()) rows = head + ours + p99 + "<td></td><td></td><td></td></tr>\n";
  return rows;
}

std::string section_of(const std::string& provider, const std::vector<Json>& points, bool is_flow) {
  if (points.empty()) return "";
  std::string rows;
  for (const Json& point : points) rows += rows_of(point, is_flow);
  return fmt::format(R"(<h2>{}: {}</h2>
{}<table>
<tr><th></th><th></th><th>ours</th><th>p99</th><th>beside</th><th>theirs</th><th>ours / theirs</th></tr>
{}</table>
)",
                     escaped(provider),
                     is_flow
                         ? fmt::format("bandwidth, {:.0f} in flight", number_in(points.front(), "in_flight"))
                         : std::string("latency, one in flight"),
                     plot_for(points, is_flow), rows);
}

std::string gaps_of(const Json& run) {
  std::string items;
  for (const Json& gap : list_in(run, "not_measured")) {
    if (!gap.is_object()) continue;
    items += fmt::format("<li>{}: {}<br><small>{}</small></li>\n", escaped(text_in(gap, "provider")),
                         escaped(text_in(gap, "what")), escaped(text_in(gap, "next")));
  }
  return items.empty() ? "" : "<h2>Not measured</h2>\n<ul>" + items + "</ul>\n";
}

}  // namespace

std::string fabric_page_of(const Json& run) {
  std::map<std::string, std::array<std::vector<Json>, 2>> points;  // By provider: latency, bandwidth.
  for (const Json& point : list_in(run, "points")) {
    if (!point.is_object()) continue;
    points[text_in(point, "provider")][number_in(point, "in_flight") > 0 ? 1 : 0].push_back(point);
  }
  std::string body = facts_of(object_in(run, "machine")) + facts_of(object_in(run, "load")) + R"(
<p>Medians of turns, in which the sides alternate. <em>put</em> (WRITEs back and forth) and <em>send</em> are
half of a round trip; all else is timed until its completion. Dashed: the peer, in the operation's colour.</p>
)";
  for (const auto& [provider, kinds] : points) {
    body += section_of(provider, kinds[0], false) + section_of(provider, kinds[1], true);
  }
  const Json references = object_in(run, "references");
  body += gaps_of(run) + fmt::format(
                             "<h2>References</h2>\n<table><tr><th></th>{}</tr><tr><td>before</td>{}</tr>"
                             "<tr><td>after</td>{}</tr></table>\n",
                             reference_heads(), reference_cells(object_in(references, "before")),
                             reference_cells(object_in(references, "after")));
  return page_of("Refract: fabric", "Refract: what the fabric's operations cost", body);
}

}  // namespace refract::bench
