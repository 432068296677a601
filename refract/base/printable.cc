// SPDX-License-Identifier: Apache-2.0
#include "refract/base/printable.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

namespace refract {
namespace {

struct Character {
  uint32_t point = 0;
  size_t bytes = 0;  // 0: no UTF-8 begins here.
};

// Strict: not longer than needed, no surrogate, not beyond Unicode.
Character first_of(std::string_view text) noexcept {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return {.point = lead, .bytes = 1};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  uint32_t point = lead & (0x7fU >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0U) != 0x80U) return {};
    point = (point << 6U) | (next & 0x3fU);
  }
  constexpr std::array<uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = point >= 0xd800 && point < 0xe000;
  if (point < kLeast[bytes] || is_surrogate || point > 0x10ffff) return {};
  return {.point = point, .bytes = bytes};
}

bool is_unsafe(uint32_t point) noexcept {
  const bool is_control = point < 0x20 || (point >= 0x7f && point < 0xa0);
  const bool breaks_lines = point == 0x2028 || point == 0x2029;
  const bool turns_direction = point == 0x61c || point == 0x200e || point == 0x200f ||
                               (point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
  return is_control || breaks_lines || turns_direction;
}

void append_spelled(std::string& out, std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    out += "\\x";
    out.push_back(kDigits[value >> 4U]);
    out.push_back(kDigits[value & 15U]);
  }
}

}  // namespace

bool is_utf8(std::string_view bytes) noexcept {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  while (!bytes.empty()) {
    if (bytes.size() >= sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, bytes.data(), sizeof word);
      if ((word & kHighBits) == 0) {
        bytes.remove_prefix(sizeof word);
        continue;
      }
    }
    const size_t length = first_of(bytes).bytes;
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string printable(std::string_view bytes, LineBreaks breaks) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Character next = first_of(bytes);
    const std::string_view taken = bytes.substr(0, std::max<size_t>(next.bytes, 1));
    const bool is_kept_break = breaks == LineBreaks::kKept && (taken == "\n" || taken == "\t");
    if (next.bytes > 0 && (is_kept_break || !is_unsafe(next.point))) {
      out += taken;
    } else {
      append_spelled(out, taken);
    }
    bytes.remove_prefix(taken.size());
  }
  return out;
}

}  // namespace refract
