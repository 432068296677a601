// SPDX-License-Identifier: Apache-2.0
#include "refract/base/boot_id.h"

#include <charconv>
#include <fstream>
#include <string>

namespace refract {

std::optional<BootId> host_boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return parse_boot_id(line);
}

std::optional<BootId> parse_boot_id(std::string_view text) noexcept {
  BootId id{};
  size_t count = 0;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '-') {
      ++at;
      continue;
    }
    unsigned value = 0;
    if (count == id.size() || at + 2 > text.size()) return std::nullopt;
    const char* begin = text.data() + at;
    if (std::from_chars(begin, begin + 2, value, 16).ptr != begin + 2) return std::nullopt;
    id[count++] = static_cast<std::byte>(value);
    at += 2;
  }
  if (count != id.size()) return std::nullopt;
  return id;
}

}  // namespace refract
