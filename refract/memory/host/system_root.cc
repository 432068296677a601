// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/host/system_root.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>

#include "refract/memory/host/descriptor.h"

namespace refract {

std::optional<std::string> SystemRoot::read(std::string_view path) const {
  static constexpr size_t kBytesMax = 1 << 20;
  const Descriptor file(::open(at(path).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::string text;
  char piece[4096];
  for (;;) {
    const ssize_t got = ::read(file.get(), piece, sizeof(piece));
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    text.append(piece, static_cast<size_t>(got));
    if (text.size() > kBytesMax) return std::nullopt;
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

bool SystemRoot::has_folder(std::string_view path) const {
  struct stat status{};
  return ::stat(at(path).c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::vector<std::string_view> pieces_of(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

std::optional<uint64_t> leading_number(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t");
  if (start == std::string_view::npos) return std::nullopt;
  text.remove_prefix(start);
  uint64_t number = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc()) return std::nullopt;
  return number;
}

std::optional<uint64_t> number_of_line(std::string_view text, std::string_view name) {
  for (const std::string_view line : pieces_of(text, '\n')) {
    if (!line.starts_with(name)) continue;
    const std::string_view rest = line.substr(name.size());
    // "inactive_file" must not match the line of "inactive_file_x".
    if (!rest.empty() && (rest.front() == ' ' || rest.front() == '\t' || name.ends_with(':'))) {
      return leading_number(rest);
    }
  }
  return std::nullopt;
}

}  // namespace refract
