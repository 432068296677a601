// SPDX-License-Identifier: Apache-2.0
#include "apps/refract/argument_values.h"

#include <fmt/format.h>

#include <charconv>

#include "refract/node/config/knobs.h"

namespace refract::cli {
namespace {

Reported<uint64_t> value_of(const char* flag, node::KnobType type, int64_t least, const std::string& text) {
  const node::Knob knob{.key = flag,
                        .type = type,
                        .fallback = "",
                        .fallback_words = "",
                        .least = least,
                        .choices = "",
                        .sentence = "",
                        .store = nullptr,
                        .show = nullptr};
  const auto value = node::parse_value(knob, text);
  if (!value) return report(Code::kInvalidArgument, fmt::format("{}: {}", flag, value.error().what));
  return static_cast<uint64_t>(value->number);
}

}  // namespace

Reported<uint64_t> duration_of(const char* flag, const std::string& text) {
  return value_of(flag, node::KnobType::kDuration, 1'000'000, text);
}

Reported<uint64_t> size_of(const char* flag, const std::string& text) {
  return value_of(flag, node::KnobType::kBytes, 0, text);
}

Reported<uint64_t> whole_number_of(const char* flag, const std::string& text) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stopped == end && number > 0) return number;
  return report(Code::kInvalidArgument,
                fmt::format("{}: expected a whole number from 1, found '{}'", flag, text));
}

}  // namespace refract::cli
