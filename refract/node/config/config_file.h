// SPDX-License-Identifier: Apache-2.0
// Reads a configuration file (TOML 1.0) into a list of keys with the text of their values. What the keys mean
// is not known here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "refract/base/report.h"

namespace refract::node {

enum class FileValue : uint8_t { kText, kInteger, kBool, kTable, kOther };

struct FileSetting {
  std::string key;  // With dots: "memory.limit".
  std::string text;
  FileValue kind = FileValue::kOther;
  uint32_t line = 0;  // From 1.
};

// Every value and every table of the file, in an order of its own. Errors name file and line.
[[nodiscard]] Reported<std::vector<FileSetting>> read_config_file(const std::string& path);

}  // namespace refract::node
