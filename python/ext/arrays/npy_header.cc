// SPDX-License-Identifier: Apache-2.0
#include "python/ext/arrays/npy_header.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace refract::python {

namespace {

constexpr std::string_view kMark = "\x93NUMPY";
constexpr uint64_t kVersionAt = kMark.size();
// numpy has 32 dimensions, or 64; an item's length is an int.
constexpr size_t kDimensionsMax = 64;
constexpr int kDepthMax = 16;
constexpr uint64_t kItemBytesMax = std::numeric_limits<int32_t>::max();
constexpr uint64_t kLengthMax = std::numeric_limits<int64_t>::max();

// Nothing: more than `largest`.
std::optional<uint64_t> product_of(uint64_t bytes, std::span<const uint64_t> shape, uint64_t largest) {
  if (std::ranges::find(shape, 0U) != shape.end()) return 0;
  for (const uint64_t length : shape) {
    if (bytes != 0 && length > largest / bytes) return std::nullopt;
    bytes *= length;
  }
  return bytes;
}

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

// The length of an item of a type without fields, such as "<f8", "|S5", "<M8[ns]". 0: it is none that holds
// no references.
uint64_t item_bytes_of(std::string_view text) noexcept {
  if (!text.empty() && std::string_view("<>|=").find(text.front()) != std::string_view::npos) {
    text.remove_prefix(1);
  }
  if (text.empty()) return 0;
  const char kind = text.front();
  text.remove_prefix(1);
  constexpr size_t kDigitsMax = 10;
  size_t digits = 0;
  uint64_t number = 0;
  for (; digits < text.size() && digits < kDigitsMax && is_digit(text[digits]); ++digits) {
    number = number * 10 + static_cast<uint64_t>(text[digits] - '0');
  }
  text.remove_prefix(digits);
  const bool is_time = kind == 'm' || kind == 'M';
  if (is_time && !text.empty()) {
    constexpr size_t kUnitMax = 24;
    const bool is_unit =
        text.size() > 2 && text.size() <= kUnitMax && text.front() == '[' && text.back() == ']';
    const auto is_of_unit = [](char c) noexcept {
      return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '/';
    };
    if (!is_unit || !std::ranges::all_of(text.substr(1, text.size() - 2), is_of_unit)) return 0;
    text = {};
  }
  if (digits == 0 || !text.empty()) return 0;
  const auto is_among = [number](std::initializer_list<uint64_t> lengths) noexcept {
    return std::ranges::find(lengths, number) != lengths.end() ? number : 0;
  };
  switch (kind) {
    case 'b':
      return is_among({1});
    case 'i':
    case 'u':
      return is_among({1, 2, 4, 8});
    case 'f':
      return is_among({2, 4, 8, 16});
    case 'c':
      return is_among({8, 16, 32});
    case 'm':
    case 'M':
      return is_among({8});
    case 'S':
    case 'V':
      return number <= kItemBytesMax ? number : 0;
    case 'U':
      return number <= kItemBytesMax / 4 ? number * 4 : 0;
    default:
      return 0;
  }
}

void append_utf8(std::string& text, uint32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0 | (code >> 6));
    text += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    text += static_cast<char>(0xe0 | (code >> 12));
    text += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    text += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    text += static_cast<char>(0xf0 | (code >> 18));
    text += static_cast<char>(0x80 | ((code >> 12) & 0x3f));
    text += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    text += static_cast<char>(0x80 | (code & 0x3f));
  }
}

// Literals of Python, as far as headers have them. What is no literal makes it fail for good.
class Literals {
 public:
  Literals(std::string_view text, bool is_utf8) noexcept : rest_(text), is_utf8_(is_utf8) {}

  [[nodiscard]] bool is_sound() const noexcept { return is_sound_; }
  [[nodiscard]] bool is_at_end() {
    skip_spaces();
    return rest_.empty();
  }
  [[nodiscard]] char peek() {
    skip_spaces();
    return rest_.empty() ? '\0' : rest_.front();
  }
  // Whether it was this, which then is passed.
  [[nodiscard]] bool took(char c) {
    if (peek() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!took(c)) fail();
  }
  void fail() noexcept {
    is_sound_ = false;
    rest_ = {};
  }

  [[nodiscard]] std::string string() {
    const char quote = peek();
    std::string text;
    if (quote != '\'' && quote != '"') {
      fail();
      return text;
    }
    rest_.remove_prefix(1);
    while (!rest_.empty() && rest_.front() != quote) {
      const auto c = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      if (c == '\\') {
        escape(text);
      } else if (c < 0x80 || is_utf8_) {
        text += static_cast<char>(c);
      } else {
        append_utf8(text, c);
      }
    }
    if (rest_.empty()) {
      fail();
    } else {
      rest_.remove_prefix(1);
    }
    return text;
  }

  [[nodiscard]] bool boolean() {
    skip_spaces();
    for (const std::string_view word : {"True", "False"}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return word == "True";
    }
    fail();
    return false;
  }

  // (), (1,), (1, 2): lengths, which are not negative.
  [[nodiscard]] std::vector<uint64_t> lengths() {
    std::vector<uint64_t> lengths;
    expect('(');
    while (is_sound_ && !took(')')) {
      lengths.push_back(length());
      if (lengths.size() > kDimensionsMax) fail();
      // One in brackets is no tuple without it.
      const bool goes_on = took(',');
      if (!goes_on && (lengths.size() == 1 || peek() != ')')) fail();
    }
    return lengths;
  }
  [[nodiscard]] uint64_t length() {
    skip_spaces();
    uint64_t number = 0;
    size_t digits = 0;
    for (; digits < rest_.size() && is_digit(rest_[digits]); ++digits) {
      const auto digit = static_cast<uint64_t>(rest_[digits] - '0');
      if (number > (kLengthMax - digit) / 10) {
        fail();
        return 0;
      }
      number = number * 10 + digit;
    }
    if (digits == 0) fail();
    rest_.remove_prefix(std::min(digits, rest_.size()));
    // As Python 2 wrote it.
    if (!rest_.empty() && rest_.front() == 'L') rest_.remove_prefix(1);
    return number;
  }

 private:
  void skip_spaces() noexcept {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n' || rest_.front() == '\t')) {
      rest_.remove_prefix(1);
    }
  }
  void escape(std::string& text) {
    if (rest_.empty()) return fail();
    const char c = rest_.front();
    rest_.remove_prefix(1);
    constexpr std::string_view kNamed = "ntr\\'\"";
    constexpr std::string_view kMeant = "\n\t\r\\'\"";
    if (const size_t place = kNamed.find(c); place != std::string_view::npos) {
      text += kMeant[place];
      return;
    }
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0 || rest_.size() < digits) return fail();
    uint32_t code = 0;
    for (const char digit : rest_.substr(0, digits)) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      const size_t value = kDigits.find(digit >= 'A' && digit <= 'F' ? static_cast<char>(digit + 32) : digit);
      if (value == std::string_view::npos) return fail();
      code = code * 16 + static_cast<uint32_t>(value);
    }
    rest_.remove_prefix(digits);
    // No character: a half of one, or none at all.
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return fail();
    append_utf8(text, code);
  }

  std::string_view rest_;
  bool is_utf8_;
  bool is_sound_ = true;
};

NpyType type_of(Literals& literals, int depth);

// ('name', type), ('name', type, (2,)), (('title', 'name'), type).
NpyField field_of(Literals& literals, int depth) {
  NpyField field;
  literals.expect('(');
  if (literals.took('(')) {
    field.title = literals.string();
    literals.expect(',');
    field.name = literals.string();
    (void)literals.took(',');
    literals.expect(')');
  } else {
    field.name = literals.string();
  }
  literals.expect(',');
  field.type = type_of(literals, depth + 1);
  if (literals.took(',') && literals.peek() != ')') {
    // A number alone is a shape of one dimension.
    field.shape = literals.peek() == '(' ? literals.lengths() : std::vector{literals.length()};
    (void)literals.took(',');
  }
  literals.expect(')');
  return field;
}

NpyType type_of(Literals& literals, int depth) {
  NpyType type;
  if (depth > kDepthMax) literals.fail();
  if (!literals.took('[')) {
    type.text = literals.string();
    type.bytes = item_bytes_of(type.text);
    if (type.bytes == 0) literals.fail();
    return type;
  }
  while (literals.is_sound() && !literals.took(']')) {
    NpyField field = field_of(literals, depth);
    const std::optional<uint64_t> bytes = product_of(field.type.bytes, field.shape, kItemBytesMax);
    if (!bytes || *bytes > kItemBytesMax - type.bytes) literals.fail();
    type.bytes += bytes.value_or(0);
    type.fields.push_back(std::move(field));
    if (!literals.took(',') && literals.peek() != ']') literals.fail();
  }
  if (type.bytes == 0) literals.fail();
  return type;
}

// {'descr': ..., 'fortran_order': ..., 'shape': ...}, in any order, each once.
bool has_read(Literals& literals, NpyHeader& header) {
  constexpr unsigned kType = 1;
  constexpr unsigned kOrder = 2;
  constexpr unsigned kShape = 4;
  unsigned seen = 0;
  literals.expect('{');
  while (literals.is_sound() && !literals.took('}')) {
    const std::string name = literals.string();
    literals.expect(':');
    const unsigned what = name == "descr"           ? kType
                          : name == "fortran_order" ? kOrder
                          : name == "shape"         ? kShape
                                                    : 0;
    if (what == 0 || (seen & what) != 0) return false;
    seen |= what;
    if (what == kType) header.type = type_of(literals, 0);
    if (what == kOrder) header.is_fortran = literals.boolean();
    if (what == kShape) header.shape = literals.lengths();
    if (!literals.took(',') && literals.peek() != '}') literals.fail();
  }
  return literals.is_sound() && seen == (kType | kOrder | kShape) && literals.is_at_end() &&
         literals.is_sound();
}

uint64_t little_endian(std::span<const std::byte> bytes) noexcept {
  uint64_t number = 0;
  for (size_t i = bytes.size(); i-- > 0;) number = number << 8 | static_cast<uint64_t>(bytes[i]);
  return number;
}

bool is_ascii(std::string_view text) noexcept {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

std::optional<NpyHeader> read_npy(std::span<const std::byte> value) {
  if (value.size() < kVersionAt + 4 || std::memcmp(value.data(), kMark.data(), kMark.size()) != 0) {
    return std::nullopt;
  }
  const auto version = static_cast<unsigned>(value[kVersionAt]);
  if (version < 1 || version > 3 || value[kVersionAt + 1] != std::byte{0}) return std::nullopt;
  const uint64_t length_bytes = version == 1 ? 2 : 4;
  const uint64_t text_at = kVersionAt + 2 + length_bytes;
  if (value.size() < text_at) return std::nullopt;
  const uint64_t text_bytes = little_endian(value.subspan(kVersionAt + 2, length_bytes));
  if (text_bytes > value.size() - text_at) return std::nullopt;
  NpyHeader header{.type = {},
                   .is_fortran = false,
                   .shape = {},
                   .items_at = text_at + text_bytes,
                   .items_bytes = value.size() - text_at - text_bytes};
  Literals literals({reinterpret_cast<const char*>(value.data()) + text_at, text_bytes}, version == 3);
  if (!has_read(literals, header)) return std::nullopt;
  const std::optional<uint64_t> needed = product_of(header.type.bytes, header.shape, kLengthMax);
  if (!needed || *needed != header.items_bytes) return std::nullopt;
  return header;
}

std::string npy_header(std::string_view type, bool is_fortran, std::span<const uint64_t> shape) {
  std::string text = "{'descr': " + std::string(type) +
                     ", 'fortran_order': " + (is_fortran ? "True" : "False") + ", 'shape': (";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  text += shape.size() == 1 ? ",), }" : "), }";
  // The third version is the second in UTF-8.
  constexpr uint64_t kShortMax = 65'535;
  const bool is_short = is_ascii(text) && text.size() + kNpyAlignment <= kShortMax;
  const char version = is_short ? '\1' : is_ascii(text) ? '\2' : '\3';
  const size_t length_bytes = is_short ? 2 : 4;
  const size_t front_bytes = kVersionAt + 2 + length_bytes;
  const size_t whole = (front_bytes + text.size() + 1 + kNpyAlignment - 1) / kNpyAlignment * kNpyAlignment;
  text.resize(whole - front_bytes - 1, ' ');
  text += '\n';
  std::string header(kMark);
  header += version;
  header += '\0';
  for (size_t i = 0; i < length_bytes; ++i) header += static_cast<char>(text.size() >> (8 * i) & 0xff);
  return header + text;
}

}  // namespace refract::python
