// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>

#include "refract/documents/json.h"
#include "refract/node/doctor/doctor.h"

namespace refract::node {
namespace {

constexpr std::string_view kCapitals[] = {"OK", "WARN", "FAIL"};
constexpr std::string_view kWords[] = {"ok", "warn", "fail"};

}  // namespace

std::string findings_table(std::span<const Finding> findings) {
  size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.name.size());
  std::string out;
  for (const Finding& finding : findings) {
    out += fmt::format("{:<4}  {:<{}}  {}\n", kCapitals[static_cast<size_t>(finding.health)], finding.name,
                       width, finding.found);
    if (!finding.mend.empty()) out += fmt::format("{:<{}}-> {}\n", "", width + 8, finding.mend);
  }
  return out;
}

std::string findings_json(std::span<const Finding> findings) {
  documents::Value rows = documents::Value::array();
  for (const Finding& finding : findings) {
    documents::Value figures = documents::Value::object();
    for (const Figure& figure : finding.figures) figures[figure.name] = figure.value;
    rows.push_back({{"name", finding.name},
                    {"health", kWords[static_cast<size_t>(finding.health)]},
                    {"found", finding.found},
                    {"mend", finding.mend},
                    {"figures", std::move(figures)}});
  }
  return documents::to_json_line({{"healthy", findings_exit_code(findings) == 0}, {"findings", rows}});
}

int findings_exit_code(std::span<const Finding> findings) noexcept {
  return std::ranges::any_of(findings, [](const Finding& finding) { return finding.health == Health::kFail; })
             ? 1
             : 0;
}

}  // namespace refract::node
