// SPDX-License-Identifier: Apache-2.0
#include "apps/records/record.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace refract::records {
namespace {

constexpr std::array<std::pair<Format, std::string_view>, 5> kNames = {{
    {Format::kCsv, "csv"},
    {Format::kTsv, "tsv"},
    {Format::kJsonl, "jsonl"},
    {Format::kDirectory, "directory"},
    {Format::kDebian, "debian"},
}};

}  // namespace

std::string_view format_name(Format format) noexcept {
  for (const auto& [known, name] : kNames) {
    if (known == format) return name;
  }
  return "unknown";
}

std::optional<Format> format_named(std::string_view name) noexcept {
  for (const auto& [format, known] : kNames) {
    if (known == name) return format;
  }
  return std::nullopt;
}

std::string BadRecord::to_string() const {
  std::string text =
      line > 0 ? fmt::format("{}:{}: {}", file, line, what) : fmt::format("{}: {}", file, what);
  if (!expected.empty()) text += fmt::format(" (expected {})", expected);
  return text;
}

}  // namespace refract::records
