// SPDX-License-Identifier: Apache-2.0
#include "refract/base/testing/serialisability/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "refract/base/testing/linearizability/timeline.h"

namespace refract::serialisability {
namespace {

std::string_view short_name(EdgeKind kind) {
  switch (kind) {
    case EdgeKind::kWriteWrite:
      return "ww";
    case EdgeKind::kWriteRead:
      return "wr";
    case EdgeKind::kReadWrite:
      return "rw";
    case EdgeKind::kProcess:
      return "process";
    case EdgeKind::kRealTime:
      return "real time";
  }
  return "";
}

std::string label_of(const History& history, const Edge& edge) {
  if (edge.kind == EdgeKind::kProcess || edge.kind == EdgeKind::kRealTime) {
    return std::string(short_name(edge.kind));
  }
  return fmt::format("{} {}{}", short_name(edge.kind), name_of(history.keys, edge.key),
                     edge.version == 0 ? "" : fmt::format(", version {}", edge.version));
}

timeline::Timeline timeline_of(const History& history, const Anomaly& anomaly) {
  timeline::Timeline picture{.sentence = fmt::format("{}: {}", anomaly.name, anomaly.sentence),
                             .clients = history.clients,
                             .bars = {},
                             .arrows = {},
                             .legend = {}};
  std::map<size_t, size_t> bars;  // By transaction.
  for (const size_t index : anomaly.involved) {
    const Transaction& one = history.transactions[index];
    const bool is_open = one.outcome == Outcome::kUnknown || one.ended_ns == kNever;
    bars[index] = picture.bars.size();
    picture.bars.push_back({.client = one.client,
                            .began = one.began_ns,
                            .ended = is_open ? timeline::kNever : one.ended_ns,
                            .began_ns = one.began_ns,
                            .ended_ns = one.ended_ns,
                            .place = fmt::format("#{}", index),
                            .label = to_text(history, one),
                            .fill = one.outcome == Outcome::kRefused ? "#f7dcc0" : "#cfdcf5",
                            .is_involved = true,
                            .is_convicted = false,
                            .is_open = is_open});
  }
  for (const Edge& edge : anomaly.circle) {
    if (edge.from == kUnnamed || edge.to == kUnnamed) continue;
    picture.arrows.push_back(
        {.from = bars[edge.from], .to = bars[edge.to], .label = label_of(history, edge)});
  }
  return picture;
}

}  // namespace

std::string draw_text(const History& history, const Anomaly& anomaly, size_t columns) {
  return timeline::draw_text(timeline_of(history, anomaly), columns);
}

std::string draw_svg(const History& history, const Anomaly& anomaly) {
  return timeline::draw_svg(timeline_of(history, anomaly));
}

bool write_svg(const std::string& path, const History& history, const Anomaly& anomaly) {
  return timeline::write_file(path, draw_svg(history, anomaly));
}

}  // namespace refract::serialisability
