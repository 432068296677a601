// SPDX-License-Identifier: Apache-2.0
#include "refract/base/testing/linearizability/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "refract/base/testing/linearizability/timeline.h"

namespace refract::linearizability {
namespace {

timeline::Timeline timeline_of(const History& history, const Violation& violation) {
  timeline::Timeline picture{
      .sentence = violation.sentence,
      .clients = history.clients,
      .bars = {},
      .arrows = {},
      .legend = "!! nothing explains it; * contradicts it; the others change nothing\n"};
  std::vector<size_t> shown = violation.involved;
  shown.insert(shown.end(), violation.surrounding.begin(), violation.surrounding.end());
  std::ranges::sort(shown);
  for (const size_t index : shown) {
    const Operation& one = history.operations[index];
    const std::string key =
        one.key < history.keys.size() ? history.keys[one.key] : fmt::format("{}", one.key);
    picture.bars.push_back({.client = one.client,
                            .began = one.began,
                            .ended = one.ended,
                            .began_ns = one.began_ns,
                            .ended_ns = one.ended_ns,
                            .place = key.substr(0, 40),
                            .label = to_text(one),
                            .fill = one.kind == Kind::kGet   ? "#cfe8cf"
                                    : one.kind == Kind::kPut ? "#cfdcf5"
                                                             : "#f7dcc0",
                            .is_involved = std::ranges::binary_search(violation.involved, index),
                            .is_convicted = index == violation.convicted,
                            .is_open = one.outcome == Outcome::kUnknown || one.ended == kNever});
  }
  return picture;
}

}  // namespace

std::string draw_text(const History& history, const Violation& violation, size_t columns) {
  return timeline::draw_text(timeline_of(history, violation), columns);
}

std::string draw_svg(const History& history, const Violation& violation) {
  return timeline::draw_svg(timeline_of(history, violation));
}

bool write_svg(const std::string& path, const History& history, const Violation& violation) {
  return timeline::write_file(path, draw_svg(history, violation));
}

}  // namespace refract::linearizability
