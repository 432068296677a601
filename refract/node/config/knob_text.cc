// SPDX-License-Identifier: Apache-2.0
// Names and values of knobs as people write them.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <vector>

#include "refract/node/config/knobs.h"

namespace refract::node {
namespace {

struct Unit {
  std::string_view name;
  int64_t scale;
};
constexpr std::array<Unit, 5> kSizes = {
    {{"TiB", int64_t{1} << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}};
constexpr std::array<Unit, 6> kDurations = {{{"h", 3'600'000'000'000},
                                             {"min", 60'000'000'000},
                                             {"s", 1'000'000'000},
                                             {"ms", 1'000'000},
                                             {"us", 1'000},
                                             {"ns", 1}}};

std::string name_in_capitals(std::string_view key) {
  std::string name = "REFRACT_";
  for (const char letter : key) {
    name.push_back(letter == '.'
                       ? '_'
                       : static_cast<char>(letter >= 'a' && letter <= 'z' ? letter - 'a' + 'A' : letter));
  }
  return name;
}

// The exact number in the largest unit that divides it.
std::string in_units(uint64_t number, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    const auto scale = static_cast<uint64_t>(unit.scale);
    if (number % scale == 0 && (number != 0 || scale == 1))
      return fmt::format("{}{}", number / scale, unit.name);
  }
  return fmt::format("{}", number);
}

std::string show_as(const Knob& knob, int64_t number) {
  if (knob.type == KnobType::kBytes) return exact_bytes(static_cast<uint64_t>(number));
  if (knob.type == KnobType::kDuration) return exact_duration(static_cast<uint64_t>(number));
  return fmt::format("{}", number);
}

std::string expectation(const Knob& knob) {
  switch (knob.type) {
    case KnobType::kBytes:
      return knob.may_be_share ? "a size such as 512MiB or 4GiB, or a share such as 50%"
                               : "a size such as 512MiB or 4GiB";
    case KnobType::kDuration:
      return "a duration such as 50us, 100ms, 2s or 1min";
    case KnobType::kInteger:
      return "an integer";
    case KnobType::kBool:
      return "true or false";
    case KnobType::kText:
      break;
  }
  return std::string(knob.choices);
}

std::unexpected<Report> unexpected_text(const Knob& knob, std::string_view text) {
  return report(Code::kInvalidArgument, fmt::format("expected {}, found '{}'", expectation(knob), text));
}

// A whole number and what follows it, blanks in between skipped. False without a number, or if it does not
// fit.
bool split_number(std::string_view text, int64_t& number, std::string_view& rest) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  rest = text.substr(static_cast<size_t>(end - text.data()));
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  return true;
}

Reported<KnobValue> parse_number(const Knob& knob, std::string_view text) {
  KnobValue value;
  std::string_view suffix;
  if (!split_number(text, value.number, suffix)) return unexpected_text(knob, text);
  int64_t scale = 1;
  if (knob.type == KnobType::kInteger) {
    if (!suffix.empty()) return unexpected_text(knob, text);
  } else if (knob.may_be_share && suffix == "%") {
    if (value.number < 1 || value.number > 100) {
      return report(Code::kInvalidArgument,
                    fmt::format("expected a share from 1% to 100%, found '{}'", text));
    }
    value.percent = static_cast<uint8_t>(value.number);
    value.number = 0;
    return value;
  } else {
    const std::span<const Unit> units =
        knob.type == KnobType::kBytes ? std::span<const Unit>(kSizes) : std::span<const Unit>(kDurations);
    const auto unit = std::ranges::find(units, suffix, &Unit::name);
    // A bare number is a number of bytes; of what unit of time it could not be said.
    if (unit == units.end() && !(suffix.empty() && knob.type == KnobType::kBytes))
      return unexpected_text(knob, text);
    if (unit != units.end()) scale = unit->scale;
  }
  const bool fits = !__builtin_mul_overflow(value.number, scale, &value.number);
  if (!fits || value.number < knob.least || value.number > knob.most) {
    return report(Code::kInvalidArgument, fmt::format("expected {}, found '{}'", range_of(knob), text));
  }
  return value;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j + 1] + 1, row[j] + 1, changed});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string flag_of(const Knob& knob) {
  std::string flag = "--" + std::string(knob.key);
  std::ranges::replace(flag, '.', '-');
  std::ranges::replace(flag, '_', '-');
  return flag;
}

std::string environment_of(const Knob& knob) {
  return name_in_capitals(knob.key);
}

std::string range_of(const Knob& knob) {
  if (knob.type == KnobType::kText || knob.type == KnobType::kBool) return expectation(knob);
  if (!knob.choices.empty()) return std::string(knob.choices);
  return fmt::format("{} to {}{}", show_as(knob, knob.least), show_as(knob, knob.most),
                     knob.may_be_share ? ", or 1% to 100%" : "");
}

std::string with_absolute_path(const Knob& knob, const std::string& text, const std::string& folder) {
  constexpr std::string_view kFile = "file:";
  const bool may_be_none = knob.path == PathForm::kPathOrNone && text == "none";
  const bool is_behind_file = knob.path == PathForm::kBehindFile;
  if (knob.path == PathForm::kNone || may_be_none || (is_behind_file && !text.starts_with(kFile)))
    return text;
  const size_t begin = is_behind_file ? kFile.size() : 0;
  std::string_view path = std::string_view(text).substr(begin);
  if (path.empty() || path.starts_with('/') || folder.empty()) return text;
  while (path.starts_with("./")) path.remove_prefix(2);
  return fmt::format("{}{}/{}", text.substr(0, begin), folder == "/" ? "" : folder, path);
}

Reported<KnobValue> parse_value(const Knob& knob, std::string_view text) {
  if (knob.type == KnobType::kText) {
    KnobValue value;
    value.text = text;
    return value;
  }
  if (knob.type != KnobType::kBool) return parse_number(knob, text);
  if (text != "true" && text != "false") return unexpected_text(knob, text);
  KnobValue value;
  value.number = text == "true" ? 1 : 0;
  return value;
}

std::string nearest_name(std::string_view name, std::span<const std::string> names) {
  const std::string* nearest = nullptr;
  size_t least = std::max<size_t>(2, name.size() / 4) + 1;
  // Longer names are no typing error, and comparing them would take long.
  if (name.size() > 200) return {};
  for (const std::string& candidate : names) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < least) {
      least = distance;
      nearest = &candidate;
    }
  }
  return nearest == nullptr ? std::string() : *nearest;
}

std::string exact_bytes(uint64_t bytes) {
  return in_units(bytes, kSizes);
}
std::string exact_duration(uint64_t ns) {
  return in_units(ns, kDurations);
}

}  // namespace refract::node
