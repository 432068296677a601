// SPDX-License-Identifier: Apache-2.0
#include "apps/records/shown_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "apps/records/json_text.h"

namespace refract::records {
namespace {

constexpr size_t kQuotedBytesMax = 60;

}  // namespace

std::string printable(std::string_view bytes) {
  const bool is_text = is_utf8(bytes);
  std::string out;
  for (const char letter : bytes) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !is_text)) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out.push_back(letter);
    }
  }
  return out;
}

std::string in_quotes(std::string_view bytes) {
  std::string shown;
  for (const char letter : bytes.substr(0, kQuotedBytesMax)) {
    const auto byte = static_cast<unsigned char>(letter);
    shown += byte < 0x20 || byte > 0x7e ? fmt::format("\\x{:02x}", byte) : std::string(1, letter);
  }
  return fmt::format("'{}'{}", shown, bytes.size() > kQuotedBytesMax ? "..." : "");
}

std::string json_text(std::string_view text) {
  // Paths and messages may hold any bytes; JSON may not.
  const std::string safe = is_utf8(text) ? std::string(text) : printable(text);
  std::string out = "\"";
  append_json_escaped(out, safe);
  out.push_back('"');
  return out;
}

std::string json_member(std::string_view name, std::string_view bytes) {
  if (is_utf8(bytes)) return fmt::format("\"{}\": {}", name, json_text(bytes));
  std::string out = fmt::format("\"{}_base64\": \"", name);
  append_base64(out, bytes);
  out.push_back('"');
  return out;
}

std::vector<std::string> hex_lines(std::span<const std::byte> bytes, uint64_t offset) {
  constexpr size_t kPerLine = 16;
  std::vector<std::string> lines;
  for (size_t at = 0; at < bytes.size(); at += kPerLine) {
    const auto row = bytes.subspan(at, std::min(kPerLine, bytes.size() - at));
    std::string hex;
    std::string letters;
    for (size_t i = 0; i < row.size(); ++i) {
      const auto byte = std::to_integer<unsigned>(row[i]);
      fmt::format_to(std::back_inserter(hex), "{}{:02x} ", i == 8 ? " " : "", byte);
      letters.push_back(byte < 0x20 || byte > 0x7e ? '.' : static_cast<char>(byte));
    }
    lines.push_back(fmt::format("{:04x}  {:<49} {}", offset + at, hex, letters));
  }
  return lines;
}

}  // namespace refract::records
