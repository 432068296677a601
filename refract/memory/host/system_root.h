// SPDX-License-Identifier: Apache-2.0
// Where /proc and /sys are found, so that what is read there can be tested with trees of other machines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refract {

struct SystemRoot {
  std::string folder;  // "": this machine. A test gives a folder that holds a proc and a sys.

  [[nodiscard]] std::string at(std::string_view path) const { return folder + std::string(path); }
  // The whole file without the newline at its end; nothing if it cannot be read or is larger than 1 MiB.
  [[nodiscard]] std::optional<std::string> read(std::string_view path) const;
  [[nodiscard]] bool has_folder(std::string_view path) const;
};

// The pieces of `text` between separators, empty ones included.
[[nodiscard]] std::vector<std::string_view> pieces_of(std::string_view text, char separator);

// The number that `text` starts with after blanks; nothing if there is none or it exceeds 64 bits.
[[nodiscard]] std::optional<uint64_t> leading_number(std::string_view text);

// The number behind `name` at the start of a line, as in /proc/meminfo and memory.stat.
[[nodiscard]] std::optional<uint64_t> number_of_line(std::string_view text, std::string_view name);

}  // namespace refract
