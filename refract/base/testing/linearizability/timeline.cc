// SPDX-License-Identifier: Apache-2.0
#include "refract/base/testing/linearizability/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string_view>
#include <utility>

namespace refract::timeline {
namespace {

struct Drawn {
  size_t index = 0;  // Of the bar.
  size_t from = 0;   // Moments.
  size_t to = 0;
  size_t lane = 0;
};

// What both kinds of picture are drawn from.
struct Scene {
  std::vector<Drawn> bars;           // By their beginnings.
  std::vector<std::string> lanes;    // Names; a client that does several things at once has several.
  std::vector<uint64_t> moments_ns;  // By number.
};

std::string name_of(const std::vector<std::string>& names, uint32_t number) {
  return number < names.size() ? names[number] : fmt::format("{}", number);
}

// `label_moments`: how many moments wide what is written below a bar may be.
void place_in_lanes(const Timeline& timeline, size_t label_moments, Scene& scene) {
  std::map<uint32_t, std::vector<size_t>> free_from;  // Of each client's lanes.
  std::map<std::pair<uint32_t, size_t>, std::vector<Drawn*>> rows;
  for (Drawn& drawn : scene.bars) {
    const uint32_t client = timeline.bars[drawn.index].client;
    std::vector<size_t>& lanes = free_from[client];
    const auto found = std::ranges::find_if(lanes, [&](size_t from) { return from <= drawn.from; });
    const auto row = static_cast<size_t>(found - lanes.begin());
    if (found == lanes.end()) lanes.push_back(0);
    lanes[row] = std::max(drawn.to, drawn.from + label_moments);
    rows[{client, row}].push_back(&drawn);
  }
  for (const auto& [place, bars] : rows) {
    for (Drawn* drawn : bars) drawn->lane = scene.lanes.size();
    scene.lanes.push_back(name_of(timeline.clients, place.first));
  }
}

Scene scene_of(const Timeline& timeline, size_t label_moments) {
  Scene scene;
  std::map<uint64_t, uint64_t> moments;  // Order to time.
  for (const Bar& bar : timeline.bars) {
    moments.emplace(bar.began, bar.began_ns);
    if (bar.ended != kNever) moments.emplace(bar.ended, bar.ended_ns);
  }
  std::map<uint64_t, size_t> numbers;
  for (const auto& [order, at_ns] : moments) {
    numbers[order] = scene.moments_ns.size();
    scene.moments_ns.push_back(at_ns);
  }
  for (size_t i = 0; i < timeline.bars.size(); ++i) {
    const Bar& bar = timeline.bars[i];
    scene.bars.push_back({.index = i,
                          .from = numbers[bar.began],
                          .to = bar.ended == kNever ? scene.moments_ns.size() : numbers[bar.ended]});
  }
  std::ranges::sort(scene.bars, {}, [](const Drawn& drawn) { return std::pair(drawn.from, drawn.index); });
  place_in_lanes(timeline, label_moments, scene);
  return scene;
}

// "A" to "Z", then "a" to "z", then "?": more do not fit a terminal anyway.
char letter(size_t number) {
  if (number < 26) return static_cast<char>('A' + number);
  return number < 52 ? static_cast<char>('a' + number - 26) : '?';
}

std::string interval_text(const Bar& bar) {
  const std::string end = bar.ended == kNever ? "..." : fmt::format("{:.3f}", double(bar.ended_ns) / 1e3);
  return fmt::format("[{:.3f}, {}] us", double(bar.began_ns) / 1e3, end);
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

void draw_bar(const Bar& bar, const Drawn& drawn, char name, size_t width, std::string& lane, size_t step) {
  const size_t from = drawn.from * step;
  const size_t to = std::min(drawn.to * step, width - 1);
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

std::string svg_bar(const Timeline& timeline, const Drawn& drawn) {
  const Bar& bar = timeline.bars[drawn.index];
  const size_t x = kLeft + drawn.from * kStep;
  const size_t width = std::max<size_t>((drawn.to - drawn.from) * kStep, 8);
  const size_t y = kTop + drawn.lane * kLane;
  const char* stroke = bar.is_convicted ? "#c00000" : bar.is_involved ? "#303030" : "#c0c0c0";
  return fmt::format(
      "<g opacity=\"{}\"><title>{}: {} {}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"18\" rx=\"3\" "
      "fill=\"{}\" stroke=\"{}\" stroke-width=\"{}\"{}/><text x=\"{}\" y=\"{}\" fill=\"{}\">{}</text></g>\n",
      bar.is_involved ? "1" : "0.55", escaped(name_of(timeline.clients, bar.client)), escaped(bar.label),
      interval_text(bar), x, y, width, bar.fill, stroke, bar.is_convicted ? 3 : 1,
      bar.is_open ? " stroke-dasharray=\"6 4\"" : "", x + 2, y + 31, bar.is_convicted ? "#c00000" : "#202020",
      escaped(bar.label));
}

// From the end of one bar to the beginning of the other, with a point at its end.
std::string svg_arrow(const Scene& scene, const Arrow& arrow) {
  const auto drawn = [&](size_t index) { return *std::ranges::find(scene.bars, index, &Drawn::index); };
  const Drawn from = drawn(arrow.from);
  const Drawn to = drawn(arrow.to);
  const size_t x1 = kLeft + to.from * kStep + 4;
  const size_t y1 = kTop + to.lane * kLane + 9;
  const size_t x0 = kLeft + std::max(from.to * kStep, from.from * kStep + 8);
  const size_t y0 = kTop + from.lane * kLane + 9;
  return fmt::format(
      "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"#c00000\"/><circle cx=\"{}\" cy=\"{}\" r=\"3\" "
      "fill=\"#c00000\"/><text x=\"{}\" y=\"{}\" fill=\"#c00000\">{}</text>\n",
      x0, y0, x1, y1, x1, y1, (x0 + x1) / 2, (y0 + y1) / 2 - 4, escaped(arrow.label));
}

}  // namespace

std::string draw_text(const Timeline& timeline, size_t columns) {
  const Scene scene = scene_of(timeline, 0);
  size_t name_width = 4;
  for (const std::string& lane : scene.lanes) name_width = std::max(name_width, lane.size());
  const size_t room = columns > name_width + 12 ? columns - name_width - 2 : 10;
  const size_t step = std::clamp<size_t>(room / (scene.moments_ns.size() + 1), 1, 8);
  const size_t width = (scene.moments_ns.size() + 1) * step;
  std::vector<std::string> lanes(scene.lanes.size(), std::string(width, ' '));
  std::vector<char> letters(timeline.bars.size());
  for (size_t i = 0; i < scene.bars.size(); ++i) {
    const Drawn& drawn = scene.bars[i];
    letters[drawn.index] = letter(i);
    draw_bar(timeline.bars[drawn.index], drawn, letter(i), width, lanes[drawn.lane], step);
  }
  std::string text = timeline.sentence + "\n";
  for (size_t i = 0; i < lanes.size(); ++i) {
    text += fmt::format("{:>{}}  {}\n", scene.lanes[i], name_width, lanes[i]);
  }
  for (const Drawn& drawn : scene.bars) {
    const Bar& bar = timeline.bars[drawn.index];
    const char* mark = bar.is_convicted ? "!!" : bar.is_involved ? " *" : "  ";
    text += fmt::format("{} {}  {} {}: {}  {}\n", mark, letters[drawn.index],
                        name_of(timeline.clients, bar.client), bar.place, bar.label, interval_text(bar));
  }
  for (const Arrow& arrow : timeline.arrows) {
    text += fmt::format("   {} -> {}  {}\n", letters[arrow.from], letters[arrow.to], arrow.label);
  }
  return text + timeline.legend;
}

std::string draw_svg(const Timeline& timeline) {
  const Scene scene = scene_of(timeline, kLabelMoments);
  const size_t width = kLeft + (scene.moments_ns.size() + 4) * kStep;
  const size_t bottom = kTop + scene.lanes.size() * kLane;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"monospace\" "
      "font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"10\" y=\"24\" font-size=\"14\">{}</text>\n",
      width, bottom + 60, escaped(timeline.sentence));
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
  for (const Drawn& drawn : scene.bars) svg += svg_bar(timeline, drawn);
  for (const Arrow& arrow : timeline.arrows) svg += svg_arrow(scene, arrow);
  return svg + "</svg>\n";
}

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  return file.good();
}

}  // namespace refract::timeline
