// SPDX-License-Identifier: Apache-2.0
#include "refract/node/config/config_file.h"

#include <fmt/core.h>

#include <cerrno>
#include <optional>

// clang-format off: the order matters.
#define TOML_EXCEPTIONS 0
// The library (3.3.0) asserts, and in release builds assumes, what input such as "[[[" makes false; the code
// behind those assertions copes with it. So its preprocessor.h comes first, and its assertions are taken out.
#include <toml++/impl/preprocessor.h>
#undef TOML_ASSERT
#undef TOML_ASSERT_ASSUME
#define TOML_ASSERT(condition) static_assert(true)
#define TOML_ASSERT_ASSUME(condition) static_assert(true)
#include <toml++/toml.h>
// clang-format on

#include "refract/memory/host/system_root.h"

namespace refract::node {
namespace {

void append(const std::string& prefix, const toml::table& table, std::vector<FileSetting>& settings) {
  for (const auto& [name, node] : table) {
    FileSetting setting;
    setting.key = prefix + std::string(name.str());
    setting.line = name.source().begin.line;
    if (const toml::table* inner = node.as_table()) {
      setting.kind = FileValue::kTable;
      settings.push_back(setting);
      append(setting.key + ".", *inner, settings);
      continue;
    }
    if (const auto text = node.value_exact<std::string>()) {
      setting.kind = FileValue::kText;
      setting.text = *text;
    } else if (const auto number = node.value_exact<int64_t>()) {
      setting.kind = FileValue::kInteger;
      setting.text = fmt::format("{}", *number);
    } else if (const auto truth = node.value_exact<bool>()) {
      setting.kind = FileValue::kBool;
      setting.text = *truth ? "true" : "false";
    }
    settings.push_back(setting);
  }
}

}  // namespace

Reported<std::vector<FileSetting>> read_config_file(const std::string& path) {
  errno = 0;
  const std::optional<std::string> text = SystemRoot().read(path);
  if (!text) {
    return report(errno == EACCES ? Code::kAccessDenied : Code::kInvalidArgument,
                  fmt::format("cannot read the configuration {}: {}", path,
                              errno == 0 ? "larger than 1 MiB" : errno_text(errno)),
                  "name another file with --config");
  }
  const toml::parse_result parsed = toml::parse(*text, path);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return report(Code::kInvalidArgument,
                  fmt::format("{}:{}: not TOML: {}", path, error.source().begin.line, error.description()));
  }
  std::vector<FileSetting> settings;
  append("", parsed.table(), settings);
  return settings;
}

}  // namespace refract::node
