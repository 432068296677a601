// SPDX-License-Identifier: Apache-2.0
#include "refract/node/config/config_file.h"

#include <fmt/core.h>

#include <cerrno>
#include <optional>

#include "refract/documents/toml.h"
#include "refract/memory/host/system_root.h"

namespace refract::node {
namespace {

void append(const std::string& prefix, const documents::Value& table, std::vector<FileSetting>& settings) {
  for (const auto& [name, value] : table.members()) {
    FileSetting setting;
    setting.key = prefix + name;
    setting.line = value.line();
    if (value.is_object()) {
      setting.kind = FileValue::kTable;
      settings.push_back(setting);
      append(setting.key + ".", value, settings);
      continue;
    }
    if (value.is_text()) {
      setting.kind = FileValue::kText;
      setting.text = value.as_text();
    } else if (value.is_integer()) {
      setting.kind = FileValue::kInteger;
      setting.text = fmt::format("{}", value.as_integer());
    } else if (value.is_bool()) {
      setting.kind = FileValue::kBool;
      setting.text = value.as_bool() ? "true" : "false";
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
  const Reported<documents::Value> parsed = documents::parse_toml(*text, path);
  if (!parsed) return report(parsed.error());
  std::vector<FileSetting> settings;
  append("", *parsed, settings);
  return settings;
}

}  // namespace refract::node
