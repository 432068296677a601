// SPDX-License-Identifier: Apache-2.0
#include "apps/records/path_names.h"

#include <charconv>

namespace refract::records {
namespace {

constexpr std::string_view kPathDigits = "0123456789ABCDEF";

void append_escaped(std::string& out, char byte) {
  const auto value = static_cast<unsigned char>(byte);
  out.push_back('%');
  out.push_back(kPathDigits[value >> 4]);
  out.push_back(kPathDigits[value & 15]);
}

bool is_plain(char byte) noexcept {
  const auto value = static_cast<unsigned char>(byte);
  return value >= 0x20 && value != 0x7f && byte != '%' && byte != '/';
}

}  // namespace

void key_to_path(std::string_view key, std::string& path) {
  path.clear();
  size_t component = 0;  // Where in `path` the current component begins.
  const auto close_component = [&] {
    const std::string_view name = std::string_view(path).substr(component);
    if (name != "." && name != "..") return;
    const size_t dots = name.size();
    path.resize(component);
    for (size_t i = 0; i < dots; ++i) append_escaped(path, '.');
  };
  for (size_t i = 0; i < key.size(); ++i) {
    const bool separates =
        key[i] == '/' && path.size() > component && i + 1 < key.size() && key[i + 1] != '/';
    if (separates) {
      close_component();
      path.push_back('/');
      component = path.size();
    } else if (is_plain(key[i])) {
      path.push_back(key[i]);
    } else {
      append_escaped(path, key[i]);
    }
  }
  close_component();
}

bool path_to_key(std::string_view path, std::string& key) {
  key.clear();
  for (;;) {
    const size_t percent = path.find('%');
    key.append(path.substr(0, percent));
    if (percent == std::string_view::npos) return true;
    const std::string_view digits = path.substr(percent + 1, 2);
    unsigned value = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() < 2 || error != std::errc() || stop != digits.data() + 2) return false;
    key.push_back(static_cast<char>(value));
    path.remove_prefix(percent + 3);
  }
}

}  // namespace refract::records
