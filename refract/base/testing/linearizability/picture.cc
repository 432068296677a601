// SPDX-License-Identifier: Apache-2.0
#include "refract/base/testing/linearizability/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <utility>
#include <vector>

namespace refract::linearizability {
namespace {

struct Bar {
  size_t index = 0;  // Of the operation.
  size_t from = 0;   // Moments.
  size_t to = 0;
  size_t lane = 0;
  bool is_involved = false;
  bool is_convicted = false;
  bool is_open = false;  // It may take effect even later.
};

// What both kinds of picture are drawn from.
struct Scene {
  std::vector<Bar> bars;
  std::vector<std::string> lanes;    // Names; a client that does several things at once has several.
  std::vector<uint64_t> moments_ns;  // By number.
};

std::string name_of(const std::vector<std::string>& names, uint32_t number) {
  return number < names.size() ? names[number] : fmt::format("{}", number);
}

// `label_moments`: how many moments wide what is written below a bar may be.
void place_in_lanes(const History& history, size_t label_moments, Scene& scene) {
  std::map<uint32_t, std::vector<size_t>> free_from;  // Of each client's lanes.
  std::map<std::pair<uint32_t, size_t>, std::vector<Bar*>> rows;
  for (Bar& bar : scene.bars) {
    const uint32_t client = history.operations[bar.index].client;
    std::vector<size_t>& lanes = free_from[client];
    const auto found = std::ranges::find_if(lanes, [&](size_t from) { return from <= bar.from; });
    const auto row = static_cast<size_t>(found - lanes.begin());
    if (found == lanes.end()) lanes.push_back(0);
    lanes[row] = std::max(bar.to, bar.from + label_moments);
    rows[{client, row}].push_back(&bar);
  }
  for (const auto& [place, bars] : rows) {
    for (Bar* bar : bars) bar->lane = scene.lanes.size();
    scene.lanes.push_back(name_of(history.clients, place.first));
  }
}

Scene scene_of(const History& history, const Violation& violation, size_t label_moments) {
  Scene scene;
  std::vector<size_t> shown = violation.involved;
  shown.insert(shown.end(), violation.surrounding.begin(), violation.surrounding.end());
  std::ranges::sort(shown);
  std::map<uint64_t, uint64_t> moments;  // Order to time.
  for (const size_t index : shown) {
    const Operation& one = history.operations[index];
    moments.emplace(one.began, one.began_ns);
    if (one.ended != kNever) moments.emplace(one.ended, one.ended_ns);
  }
  std::map<uint64_t, size_t> numbers;
  for (const auto& [order, at_ns] : moments) {
    numbers[order] = scene.moments_ns.size();
    scene.moments_ns.push_back(at_ns);
  }
  for (const size_t index : shown) {
    const Operation& one = history.operations[index];
    const bool is_open = one.outcome == Outcome::kUnknown || one.ended == kNever;
    scene.bars.push_back({.index = index,
                          .from = numbers[one.began],
                          .to = one.ended == kNever ? scene.moments_ns.size() : numbers[one.ended],
                          .is_involved = std::ranges::binary_search(violation.involved, index),
                          .is_convicted = index == violation.convicted,
                          .is_open = is_open});
  }
  std::ranges::sort(scene.bars, {}, [](const Bar& bar) { return std::pair(bar.from, bar.index); });
  place_in_lanes(history, label_moments, scene);
  return scene;
}

// "A" to "Z", then "a" to "z", then "?": more do not fit a terminal anyway.
char letter(size_t number) {
  if (number < 26) return static_cast<char>('A' + number);
  return number < 52 ? static_cast<char>('a' + number - 26) : '?';
}

std::string interval_text(const Operation& one) {
  const std::string end = one.ended == kNever ? "..." : fmt::format("{:.3f}", double(one.ended_ns) / 1e3);
  return fmt::format("[{:.3f}, {}] us", double(one.began_ns) / 1e3, end);
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char one : text) {
    if (one == '<') {
      result += "&lt;";
    } else if (one == '>') {
      result += "&gt;";
    } else if (one == '&') {
      result += "&amp;";
    } else {
      result += one;
    }
  }
  return result;
}

void draw_bar(const Bar& bar, char name, size_t width, std::string& lane, size_t step) {
  const size_t from = bar.from * step;
  const size_t to = std::min(bar.to * step, width - 1);
  for (size_t i = from; i <= to; ++i) lane[i] = bar.is_open ? '.' : bar.is_involved ? '=' : '-';
  lane[from] = '[';
  if (to > from) lane[to] = bar.is_open ? '>' : ']';
  lane[from + (to - from) / 2] = name;
}

constexpr size_t kLeft = 110;
constexpr size_t kStep = 80;
constexpr size_t kLabelMoments = 4;
constexpr size_t kLane = 46;
constexpr size_t kTop = 64;

std::string svg_bar(const History& history, const Bar& bar) {
  const Operation& one = history.operations[bar.index];
  const size_t x = kLeft + bar.from * kStep;
  const size_t width = std::max<size_t>((bar.to - bar.from) * kStep, 8);
  const size_t y = kTop + bar.lane * kLane;
  const char* fill = one.kind == Kind::kGet ? "#cfe8cf" : one.kind == Kind::kPut ? "#cfdcf5" : "#f7dcc0";
  const char* stroke = bar.is_convicted ? "#c00000" : bar.is_involved ? "#303030" : "#c0c0c0";
  return fmt::format(
      "<g opacity=\"{}\"><title>{}: {} {}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"18\" rx=\"3\" "
      "fill=\"{}\" stroke=\"{}\" stroke-width=\"{}\"{}/><text x=\"{}\" y=\"{}\" fill=\"{}\">{}</text></g>\n",
      bar.is_involved ? "1" : "0.55", escaped(name_of(history.clients, one.client)), escaped(to_text(one)),
      interval_text(one), x, y, width, fill, stroke, bar.is_convicted ? 3 : 1,
      bar.is_open ? " stroke-dasharray=\"6 4\"" : "", x + 2, y + 31, bar.is_convicted ? "#c00000" : "#202020",
      escaped(to_text(one)));
}

}  // namespace

std::string draw_text(const History& history, const Violation& violation, size_t columns) {
  const Scene scene = scene_of(history, violation, 0);
  size_t name_width = 4;
  for (const std::string& lane : scene.lanes) name_width = std::max(name_width, lane.size());
  const size_t room = columns > name_width + 12 ? columns - name_width - 2 : 10;
  const size_t step = std::clamp<size_t>(room / (scene.moments_ns.size() + 1), 1, 8);
  const size_t width = (scene.moments_ns.size() + 1) * step;
  std::vector<std::string> lanes(scene.lanes.size(), std::string(width, ' '));
  for (size_t i = 0; i < scene.bars.size(); ++i) {
    draw_bar(scene.bars[i], letter(i), width, lanes[scene.bars[i].lane], step);
  }
  std::string text = violation.sentence + "\n";
  for (size_t i = 0; i < lanes.size(); ++i) {
    text += fmt::format("{:>{}}  {}\n", scene.lanes[i], name_width, lanes[i]);
  }
  for (size_t i = 0; i < scene.bars.size(); ++i) {
    const Bar& bar = scene.bars[i];
    const Operation& one = history.operations[bar.index];
    const char* mark = bar.is_convicted ? "!!" : bar.is_involved ? " *" : "  ";
    text += fmt::format("{} {}  {} {}: {}  {}\n", mark, letter(i), name_of(history.clients, one.client),
                        name_of(history.keys, one.key).substr(0, 40), to_text(one), interval_text(one));
  }
  return text + "!! nothing explains it; * contradicts it; the others change nothing\n";
}

std::string draw_svg(const History& history, const Violation& violation) {
  const Scene scene = scene_of(history, violation, kLabelMoments);
  const size_t width = kLeft + (scene.moments_ns.size() + 4) * kStep;
  const size_t bottom = kTop + scene.lanes.size() * kLane;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"monospace\" "
      "font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"10\" y=\"24\" font-size=\"14\">{}</text>\n",
      width, bottom + 60, escaped(violation.sentence));
  for (size_t i = 0; i < scene.moments_ns.size(); ++i) {
    const size_t x = kLeft + i * kStep;
    svg += fmt::format(
        "<line x1=\"{0}\" y1=\"{1}\" x2=\"{0}\" y2=\"{2}\" stroke=\"#e4e4e4\"/>"
        "<text x=\"{0}\" y=\"{3}\" fill=\"#707070\" font-size=\"9\">{4:.3f}</text>\n",
        x, kTop - 10, bottom, bottom + 14, double(scene.moments_ns[i]) / 1e3);
  }
  svg += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"#707070\">microseconds; order, not to scale</text>\n",
                     kLeft, bottom + 34);
  for (size_t i = 0; i < scene.lanes.size(); ++i) {
    svg += fmt::format("<text x=\"10\" y=\"{}\">{}</text>\n", kTop + i * kLane + 13, escaped(scene.lanes[i]));
  }
  for (const Bar& bar : scene.bars) svg += svg_bar(history, bar);
  return svg + "</svg>\n";
}

bool write_svg(const std::string& path, const History& history, const Violation& violation) {
  std::ofstream file(path);
  file << draw_svg(history, violation);
  return file.good();
}

}  // namespace refract::linearizability
