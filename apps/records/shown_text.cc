// SPDX-License-Identifier: Apache-2.0
#include "apps/records/shown_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/records/json_text.h"

namespace refract::records {
namespace {

constexpr size_t kQuotedBytesMax = 60;

// Two digits at `out`, and where the next ones go. By hand: formatting a byte takes a hundred times as long.
char* put_byte(char* out, std::byte byte) {
  constexpr char kHexDigits[] = "0123456789abcdef";
  out[0] = kHexDigits[std::to_integer<size_t>(byte) >> 4];
  out[1] = kHexDigits[std::to_integer<size_t>(byte) & 0xf];
  return out + 2;
}

}  // namespace

std::string in_quotes(std::string_view bytes) {
  std::string shown;
  for (const char letter : bytes.substr(0, kQuotedBytesMax)) {
    const auto byte = static_cast<unsigned char>(letter);
    shown += byte < 0x20 || byte > 0x7e ? fmt::format("\\x{:02x}", byte) : std::string(1, letter);
  }
  return fmt::format("'{}'{}", shown, bytes.size() > kQuotedBytesMax ? "..." : "");
}

void append_bytes(documents::Value& object, std::string_view name, std::string_view bytes) {
  if (is_utf8(bytes)) return object.append_member(std::string(name), bytes);
  std::string base64;
  append_base64(base64, bytes);
  object.append_member(fmt::format("{}_base64", name), base64);
}

std::string hex_text(std::span<const std::byte> bytes) {
  std::string out(2 * bytes.size(), ' ');
  char* at = out.data();
  for (const std::byte byte : bytes) at = put_byte(at, byte);
  return out;
}

std::vector<std::string> hex_lines(std::span<const std::byte> bytes, uint64_t offset) {
  constexpr size_t kPerLine = 16;
  constexpr size_t kHexWidth = 3 * kPerLine + 2;
  std::vector<std::string> lines;
  lines.reserve((bytes.size() + kPerLine - 1) / kPerLine);
  for (size_t at = 0; at < bytes.size(); at += kPerLine) {
    const auto row = bytes.subspan(at, std::min(kPerLine, bytes.size() - at));
    std::string& line = lines.emplace_back(fmt::format("{:04x}  ", offset + at));
    const size_t hex_at = line.size();
    line.resize(hex_at + kHexWidth + row.size(), ' ');
    char* const letters = line.data() + hex_at + kHexWidth;
    char* hex = line.data() + hex_at;
    for (size_t i = 0; i < row.size(); ++i) {
      const auto byte = std::to_integer<unsigned char>(row[i]);
      if (i == 8) ++hex;
      hex = put_byte(hex, row[i]) + 1;
      letters[i] = byte < 0x20 || byte > 0x7e ? '.' : static_cast<char>(byte);
    }
  }
  return lines;
}

}  // namespace refract::records
