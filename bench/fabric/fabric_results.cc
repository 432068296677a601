// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "bench/fabric/fabric_run.h"
#include "bench/report/page_plot.h"
#include "bench/report/results.h"

#include "refract/documents/json.h"

namespace refract::bench {
namespace {

using Json = documents::Value;

std::string figure_text(const FabricCase& of, double figure) {
  return of.depth > 0 ? flow_text(figure) : time_text(figure);
}

std::string spread_text(const FabricCase& of, const std::vector<double>& turns) {
  const Spread spread = spread_of(turns);
  return fmt::format("{} ({}..{})", figure_text(of, spread.median), figure_text(of, spread.min),
                     figure_text(of, spread.max));
}

constexpr std::string_view kColumns = "{:<5} {:<28} {:<34} {:<10} {:<12} {:<34} {}\n";

std::string lines_of(const FabricPoint& point) {
  const std::string name = text(point.of);
  const std::string ours = spread_text(point.of, point.turns);
  const std::string p99 = point.p99s.empty() ? "" : time_text(spread_of(point.p99s).median);
  if (point.peers.empty()) return fmt::format(kColumns, point.provider, name, ours, p99, "", "", "");
  std::string lines;
  for (const PeerFigures& peer : point.peers) {
    const Spread ratio = spread_of(peer.ratios);
    // The peer's mean belongs beside our mean, which the column before does not show.
    const bool is_mean = peer.peer->statistic == Statistic::kMean;
    lines += fmt::format(kColumns, point.provider, name, is_mean ? spread_text(point.of, point.means) : ours,
                         p99, fmt::format("{}{}", peer.peer->name, is_mean ? ", mean" : ""),
                         spread_text(point.of, peer.turns),
                         fmt::format("{:.2f} ({:.2f}..{:.2f})", ratio.median, ratio.min, ratio.max));
  }
  return lines;
}

Json json_of(const std::vector<double>& turns) {
  const Spread spread = spread_of(turns);
  return {{"median", spread.median}, {"min", spread.min}, {"max", spread.max}, {"turns", turns}};
}

Json json_of(const FabricPoint& point) {
  Json json = {{"provider", point.provider},
               {"operation", text(point.of.shape)},
               {"bytes", point.of.bytes},
               {"in_flight", point.of.depth},
               {"unit", point.of.depth > 0 ? "bytes_per_s" : "ns"},
               {"is_half_round_trip", point.of.depth == 0 && is_ping_pong(point.of.shape)},
               {"ours", json_of(point.turns)}};
  if (point.of.depth == 0) {
    json["ours_mean"] = json_of(point.means);
    json["ours_p99"] = json_of(point.p99s);
    json["ours_min"] = json_of(point.mins);
  }
  json["peers"] = Json::array();
  for (const PeerFigures& peer : point.peers) {
    json["peers"].push_back({{"name", peer.peer->name},
                             {"statistic", peer.peer->statistic == Statistic::kMean ? "mean" : "median"},
                             {"figure", json_of(peer.turns)},
                             {"ratio", json_of(peer.ratios)}});
  }
  return json;
}

}  // namespace

std::string heading_of(const FabricOptions& options) {
  return fmt::format(
             "{} turns of {:.3g} s a size. put and send: half of a ping-pong; all else until the "
             "completion.\n\n",
             options.turns, options.seconds) +
         fmt::format(kColumns, "", "", "ours: median (turns)", "p99", "beside", "theirs", "ours / theirs");
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

std::string json_of(const FabricOptions& options, const FabricResult& result) {
  Json json = {{"format", "refract-fabric-1"},
               {"machine", json_of(this_machine())},
               {"load",
                {{"placement", result.placement},
                 {"in_flight", options.depth},
                 {"seconds", options.seconds},
                 {"turns", options.turns},
                 {"address", options.address}}},
               {"references", {{"before", json_of(result.before)}, {"after", json_of(result.after)}}},
               {"peers", result.peers},
               {"points", Json::array()},
               {"not_measured", Json::array()}};
  for (const FabricPoint& point : result.points) json["points"].push_back(json_of(point));
  for (const FabricGap& gap : result.gaps) {
    json["not_measured"].push_back({{"provider", gap.provider}, {"what", gap.what}, {"next", gap.next}});
  }
  return documents::to_json_page(json);
}

}  // namespace refract::bench
