// SPDX-License-Identifier: Apache-2.0
// `refract object paths`: what a node has learned of its ways to other nodes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "apps/progress/progress.h"
#include "apps/refract/object/object_commands.h"
#include "apps/refract/terminal.h"

#include "refract/documents/json.h"

namespace refract::cli {
namespace {

constexpr size_t kPictureWidth = 36;

// Where times stand in a picture, from the shortest to the longest, each step a factor.
class Scale {
 public:
  explicit Scale(const ObjectPath& path) {
    for (const ObjectPath::Point& point : path.curve) {
      add(point.message_ns);
      add(point.read_ns);
    }
  }
  [[nodiscard]] std::string row(const ObjectPath::Point& point) const {
    std::string row(kPictureWidth, ' ');
    if (point.message_ns != 0) row[place(point.message_ns)] = 'm';
    if (point.read_ns != 0) {
      char& mark = row[place(point.read_ns)];
      mark = mark == 'm' ? '*' : 'r';
    }
    return row;
  }

 private:
  void add(uint64_t ns) {
    if (ns == 0) return;
    least_ = least_ == 0 ? ns : std::min(least_, ns);
    most_ = std::max(most_, ns);
  }
  [[nodiscard]] size_t place(uint64_t ns) const {
    if (most_ == least_) return 0;
    const double all = std::log(static_cast<double>(most_) / static_cast<double>(least_));
    const double part = std::log(static_cast<double>(ns) / static_cast<double>(least_));
    return std::min(kPictureWidth - 1, static_cast<size_t>(std::lround(part / all * (kPictureWidth - 1))));
  }

  uint64_t least_ = 0;
  uint64_t most_ = 0;
};

std::string head_of(const ObjectPath& path) {
  if (path.curve.empty()) return fmt::format("{}: nothing was pulled from it yet\n", path.node);
  std::string text = fmt::format("{}: round trip {}", path.node, time_text(path.round_trip_ns));
  if (path.bytes_per_s != 0) text += fmt::format(", {} a second", progress::bytes_text(path.bytes_per_s));
  const bool knows_both = std::ranges::any_of(
      path.curve, [](const ObjectPath::Point& one) { return one.message_ns != 0 && one.read_ns != 0; });
  if (path.switch_bytes) {
    text += fmt::format(", READs from {} on", progress::bytes_text(*path.switch_bytes));
  } else {
    text += knows_both ? ", messages at each size that was tried" : ", one way was tried only";
  }
  return text + "\n";
}

std::string text_of(const ObjectPath& path) {
  std::string text = head_of(path);
  if (path.curve.empty()) return text;
  text += fmt::format("  {:>10} {:>10} {:>10}  |m: messages, r: READs, *: both; short to long\n", "object",
                      "messages", "READs");
  const Scale scale(path);
  for (const ObjectPath::Point& point : path.curve) {
    text += fmt::format("  {:>10} {:>10} {:>10}  |{}|\n", progress::bytes_text(point.bytes),
                        time_text(point.message_ns), time_text(point.read_ns), scale.row(point));
  }
  return text;
}

documents::Value row_of(const ObjectPath& path) {
  documents::Value row = {
      {"node", path.node}, {"round_trip_ns", path.round_trip_ns}, {"bytes_per_s", path.bytes_per_s}};
  if (path.switch_bytes) row.append_member("switch_bytes", *path.switch_bytes);
  std::vector<documents::Value> curve;
  curve.reserve(path.curve.size());
  for (const ObjectPath::Point& point : path.curve) {
    curve.push_back(documents::Value{
        {"bytes", point.bytes}, {"message_ns", point.message_ns}, {"read_ns", point.read_ns}});
  }
  row.append_member("curve", curve);
  return row;
}

}  // namespace

std::string time_text(uint64_t ns) {
  if (ns == 0) return "-";
  const auto value = static_cast<double>(ns);
  if (ns < 1'000) return fmt::format("{} ns", ns);
  if (ns < 1'000'000) return fmt::format("{:.3g} us", value / 1e3);
  if (ns < 1'000'000'000) return fmt::format("{:.3g} ms", value / 1e6);
  return fmt::format("{:.3g} s", value / 1e9);
}

int show_paths(const ObjectInvocation& invocation, Objects& objects, Client& client) {
  const auto paths = objects.paths();
  if (!paths) {
    return complain(explain_object(client, objects, paths.code(), "the node cannot tell its paths"));
  }
  for (const ObjectPath& path : *paths) {
    const int written = invocation.base.json ? write_json(row_of(path)) : write_text(text_of(path));
    if (written != kDone) return written;
  }
  return kDone;
}

}  // namespace refract::cli
