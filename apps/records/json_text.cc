// SPDX-License-Identifier: Apache-2.0
#include "apps/records/json_text.h"

#include <algorithm>
#include <array>

namespace refract::records {
namespace {

void append_utf8(std::string& out, uint32_t point) {
  const auto byte = [&](uint32_t bits) { out.push_back(static_cast<char>(bits)); };
  if (point < 0x80) {
    byte(point);
  } else if (point < 0x800) {
    byte(0xc0 | (point >> 6));
    byte(0x80 | (point & 0x3f));
  } else if (point < 0x10000) {
    byte(0xe0 | (point >> 12));
    byte(0x80 | ((point >> 6) & 0x3f));
    byte(0x80 | (point & 0x3f));
  } else {
    byte(0xf0 | (point >> 18));
    byte(0x80 | ((point >> 12) & 0x3f));
    byte(0x80 | ((point >> 6) & 0x3f));
    byte(0x80 | (point & 0x3f));
  }
}

int hex_digit(char byte) noexcept {
  if (byte >= '0' && byte <= '9') return byte - '0';
  if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
  if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
  return -1;
}

uint32_t hex_value(std::string_view digits) noexcept {
  uint32_t value = 0;
  for (const char digit : digits) value = value * 16 + static_cast<uint32_t>(hex_digit(digit));
  return value;
}

// What a backslash and this letter mean, or 0 where the letter is no short escape.
char short_escape(char letter) noexcept {
  switch (letter) {
    case '"':
      return '"';
    case '\\':
      return '\\';
    case '/':
      return '/';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return 0;
  }
}

}  // namespace

void append_json_unescaped(std::string& out, std::string_view inside) {
  for (;;) {
    const size_t slash = inside.find('\\');
    out.append(inside.substr(0, slash));
    if (slash == std::string_view::npos) return;
    inside.remove_prefix(slash + 1);
    if (inside.front() != 'u') {
      out.push_back(short_escape(inside.front()));
      inside.remove_prefix(1);
      continue;
    }
    uint32_t point = hex_value(inside.substr(1, 4));
    inside.remove_prefix(5);
    if (point >= 0xd800 && point < 0xdc00) {
      const uint32_t low = hex_value(inside.substr(2, 4));
      point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
      inside.remove_prefix(6);
    }
    append_utf8(out, point);
  }
}

bool JsonObject::fail(std::string_view what) noexcept {
  if (fault_.empty()) fault_ = what;
  return false;
}

void JsonObject::skip_spaces() noexcept {
  at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
}

bool JsonObject::take(char byte) noexcept {
  if (at_ >= text_.size() || text_[at_] != byte) return false;
  ++at_;
  return true;
}

bool JsonObject::hex4(uint32_t& unit) noexcept {
  const std::string_view four = text_.substr(std::min(at_, text_.size()), 4);
  if (four.size() < 4 || std::ranges::any_of(four, [](char byte) { return hex_digit(byte) < 0; })) {
    return fail("expected four hexadecimal digits");
  }
  unit = hex_value(four);
  at_ += 4;
  return true;
}

bool JsonObject::escape() noexcept {
  if (at_ < text_.size() && short_escape(text_[at_]) != 0) {
    ++at_;
    return true;
  }
  uint32_t unit = 0;
  if (!take('u')) return fail("expected an escape of JSON behind the backslash");
  if (!hex4(unit)) return false;
  if (unit < 0xd800 || unit > 0xdfff) return true;
  uint32_t low = 0;
  const bool paired = unit < 0xdc00 && take('\\') && take('u') && hex4(low) && low >= 0xdc00 && low <= 0xdfff;
  return paired || fail("expected the other half of a surrogate pair");
}

bool JsonObject::string(std::string_view& inside) noexcept {
  if (!take('"')) return fail("expected a string in double quotes");
  const size_t begin = at_;
  while (at_ < text_.size()) {
    const char byte = text_[at_];
    if (byte == '"') {
      inside = text_.substr(begin, at_ - begin);
      ++at_;
      return true;
    }
    if (static_cast<unsigned char>(byte) < 0x20) return fail("expected control characters to be escaped");
    ++at_;
    if (byte == '\\' && !escape()) return false;
  }
  return fail("expected the string's closing quote");
}

bool JsonObject::digits() noexcept {
  const size_t begin = at_;
  while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
  return at_ > begin || fail("expected a digit");
}

bool JsonObject::number() noexcept {
  (void)take('-');
  if (!take('0') && !digits()) return false;
  if (take('.') && !digits()) return false;
  if (take('e') || take('E')) {
    if (!take('+')) (void)take('-');
    return digits();
  }
  return true;
}

bool JsonObject::literal() noexcept {
  for (const std::string_view word : {"true", "false", "null"}) {
    if (text_.substr(at_, word.size()) == word) {
      at_ += word.size();
      return true;
    }
  }
  return fail("expected a value");
}

bool JsonObject::container(char close, int depth) noexcept {
  if (depth >= kDepthMax) return fail("expected less nesting");
  skip_spaces();
  if (take(close)) return true;
  for (;;) {
    std::string_view text;
    JsonKind kind;
    if (close == '}') {
      skip_spaces();
      if (!string(text)) return false;
      skip_spaces();
      if (!take(':')) return fail("expected ':'");
    }
    if (!value(kind, text, depth + 1)) return false;
    skip_spaces();
    if (take(close)) return true;
    if (!take(',')) return fail(close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
  }
}

bool JsonObject::value(JsonKind& kind, std::string_view& text, int depth) noexcept {
  skip_spaces();
  const size_t begin = at_;
  const char first = at_ < text_.size() ? text_[at_] : '\0';
  if (first == '"') {
    kind = JsonKind::kString;
    return string(text);
  }
  bool good;
  if (first == '{' || first == '[') {
    ++at_;
    kind = first == '{' ? JsonKind::kObject : JsonKind::kArray;
    good = container(first == '{' ? '}' : ']', depth);
  } else if (first == '-' || (first >= '0' && first <= '9')) {
    kind = JsonKind::kNumber;
    good = number();
  } else {
    kind = JsonKind::kLiteral;
    good = literal();
  }
  text = text_.substr(begin, at_ - begin);
  return good;
}

// Behind the closing brace only spaces may follow.
bool JsonObject::finish() noexcept {
  ended_ = true;
  skip_spaces();
  return at_ == text_.size() ? false : fail("expected nothing behind the object");
}

bool JsonObject::next(JsonMember& member) noexcept {
  if (ended_ || !fault_.empty()) return false;
  skip_spaces();
  if (!begun_) {
    begun_ = true;
    if (!take('{')) return fail("expected '{'");
    skip_spaces();
    if (take('}')) return finish();
  } else {
    if (take('}')) return finish();
    if (!take(',')) return fail("expected ',' or '}'");
    skip_spaces();
  }
  if (!string(member.name)) return false;
  skip_spaces();
  if (!take(':')) return fail("expected ':'");
  return value(member.kind, member.value, 0);
}

namespace {

constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr auto kBase64Values = [] {
  std::array<uint8_t, 256> values{};
  values.fill(64);
  for (size_t i = 0; i < kBase64.size(); ++i) {
    values[static_cast<unsigned char>(kBase64[i])] = static_cast<uint8_t>(i);
  }
  return values;
}();

}  // namespace

void append_base64(std::string& out, std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])); };
  const auto letter = [&](uint32_t bits) { out.push_back(kBase64[bits & 63]); };
  size_t i = 0;
  for (; i + 3 <= bytes.size(); i += 3) {
    const uint32_t group = at(i) << 16 | at(i + 1) << 8 | at(i + 2);
    letter(group >> 18);
    letter(group >> 12);
    letter(group >> 6);
    letter(group);
  }
  const size_t rest = bytes.size() - i;
  if (rest == 0) return;
  const uint32_t group = at(i) << 16 | (rest == 2 ? at(i + 1) << 8 : 0);
  letter(group >> 18);
  letter(group >> 12);
  if (rest == 2) letter(group >> 6);
  out.append(rest == 2 ? "=" : "==");
}

bool append_base64_decoded(std::string& out, std::string_view text) {
  if (text.size() % 4 != 0) return false;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  const size_t letters = text.size() - padding;
  uint32_t bits = 0;
  uint32_t bit_count = 0;
  for (const char byte : text.substr(0, letters)) {
    const uint32_t value = kBase64Values[static_cast<unsigned char>(byte)];
    if (value >= 64) return false;
    bits = (bits << 6 | value) & 0xffffff;
    bit_count += 6;
    if (bit_count < 8) continue;
    bit_count -= 8;
    out.push_back(static_cast<char>(bits >> bit_count));
  }
  // Bits that no byte takes must be zero, so that one text stands for some bytes and not many.
  return (bits & ((1U << bit_count) - 1)) == 0;
}

}  // namespace refract::records
