// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "bench/fabric/fabric_run.h"
#include "bench/report/findings.h"

namespace refract::bench {
namespace {

std::string_view unit_of(const FabricCase& of) {
  return of.depth > 0 ? "B/s" : "ns";
}

constexpr std::string_view kFabricColumns = "{:<5} {:<28} {:<34} {:<10} {:<12} {:<34} {}\n";

std::string lines_of(const FabricPoint& point) {
  const std::string name = text(point.of);
  const std::string_view unit = unit_of(point.of);
  const std::string ours = spread_text(point.turns, unit);
  const std::string p99 = point.p99s.empty() ? "" : value_text(spread_of(point.p99s).median, unit);
  if (point.peers.empty()) return fmt::format(kFabricColumns, point.provider, name, ours, p99, "", "", "");
  std::string lines;
  for (const PeerFigures& peer : point.peers) {
    const Spread ratio = spread_of(peer.ratios);
    // The peer's mean belongs beside our mean, which the column before does not show.
    const bool is_mean = peer.peer->statistic == Statistic::kMean;
    lines += fmt::format(
        kFabricColumns, point.provider, name, is_mean ? spread_text(point.means, unit) : ours, p99,
        fmt::format("{}{}", peer.peer->name, is_mean ? ", mean" : ""), spread_text(peer.turns, unit),
        fmt::format("{:.2f} ({:.2f}..{:.2f})", ratio.median, ratio.min, ratio.max));
  }
  return lines;
}

void add_point(Section& section, const FabricPoint& point) {
  const FabricCase& of = point.of;
  const auto what = fmt::format("{}, {}", text(of.shape),
                                of.depth > 0 ? fmt::format("{} in flight", of.depth) : "one in flight");
  const auto add = [&](std::string_view name, std::string_view unit, const std::vector<double>& samples) {
    Series& series = section.series_of(what, name, unit);
    if (!samples.empty()) {
      const auto bytes = static_cast<double>(of.bytes);
      series.points.push_back({.x = bytes, .place = bytes_text(bytes), .samples = samples});
    }
    return &series;
  };
  add("ours", unit_of(of), point.turns);
  if (of.depth == 0) {
    add("ours, mean", "ns", point.means);
    add("ours, p99", "ns", point.p99s);
    add("ours, lowest", "ns", point.mins);
  }
  for (const PeerFigures& peer : point.peers) {
    const bool is_mean = peer.peer->statistic == Statistic::kMean && of.depth == 0;
    const std::string theirs = fmt::format("{}{}", peer.peer->name, is_mean ? ", mean" : "");
    add(theirs, unit_of(of), peer.turns)->is_reference = true;
    add(fmt::format("ours{} / {}", is_mean ? ", mean" : "", theirs), "x", peer.ratios);
  }
}

// A section for each provider.
Section& section_for(Findings& findings, const std::string& provider) {
  for (Section& section : findings.sections) {
    if (section.title == provider) return section;
  }
  return findings.sections.emplace_back(
      Section{.title = provider,
              .how = "put and send: half of a ping-pong; all else until the completion.",
              .axis = "bytes"});
}

}  // namespace

std::string heading_of(const FabricOptions& options) {
  return fmt::format(
             "{} turns of {:.3g} s a size. put and send: half of a ping-pong; all else until the "
             "completion.\n\n",
             options.turns, options.seconds) +
         fmt::format(kFabricColumns, "", "", "ours: median (turns)", "p99", "beside", "theirs",
                     "ours / theirs");
}

std::string lines_of(std::span<const FabricPoint> points) {
  std::string lines;
  for (const FabricPoint& point : points) lines += lines_of(point);
  return lines;
}

std::string details_of(const FabricResult& result) {
  std::string lines = "\n" + result.placement + "\n";
  for (const std::string& peer : result.peers) lines += fmt::format("beside {}\n", peer);
  for (const FabricGap& gap : result.gaps) {
    lines += fmt::format("not measured, {}: {}{}{}\n", gap.provider, gap.what,
                         gap.next.empty() ? "" : "\n    ", gap.next);
  }
  if (result.before.ping_pong_ns > 0) {
    lines += fmt::format("references before: {}\nreferences after:  {}\n", text(result.before),
                         text(result.after));
  }
  return lines;
}

Findings findings_of(const FabricOptions& options, const FabricResult& result) {
  documents::Value peers = documents::Value::array();
  for (const std::string& peer : result.peers) peers.push_back(peer);
  Findings findings = findings_here("fabric", "what the fabric's operations cost",
                                    {{"placement", result.placement},
                                     {"in_flight", options.depth},
                                     {"seconds", options.seconds},
                                     {"turns", options.turns},
                                     {"address", options.address},
                                     {"peers", std::move(peers)}});
  for (const FabricPoint& point : result.points) add_point(section_for(findings, point.provider), point);
  for (const FabricGap& gap : result.gaps) {
    section_for(findings, gap.provider).gaps.push_back({.what = gap.what, .next = gap.next});
  }
  if (result.before.ping_pong_ns > 0) {
    for (Section& section : findings.sections) {
      section.blocks.push_back(
          {.of = section.title, .block = {.before = result.before, .after = result.after, .accepted = true}});
    }
  }
  return findings;
}

}  // namespace refract::bench
