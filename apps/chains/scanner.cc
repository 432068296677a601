// SPDX-License-Identifier: Apache-2.0
#include "apps/chains/scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "apps/records/shown_text.h"

namespace refract::chains {
namespace {

constexpr std::string_view kSigns = "+*/=[]:";

bool is_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || letter == '_';
}
bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}
// -1 for what is no digit.
int hex_value(char letter) {
  if (is_digit(letter)) return letter - '0';
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
  return -1;
}

}  // namespace

Report SourceText::error(Position at, std::string_view what, std::string_view hint) const {
  std::string_view rest = text;
  for (size_t line = 1; line < at.line; ++line)
    rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
  std::string line = records::printable(rest.substr(0, rest.find('\n')));
  // Below tabs and letters of several bytes the mark would stand elsewhere.
  const bool is_plain = line.size() == std::min(rest.find('\n'), rest.size());
  if (is_plain) line += fmt::format("\n  {}^", std::string(at.column - 1, ' '));
  if (!hint.empty()) line += fmt::format("{}{}", is_plain ? " " : "\n  ", hint);
  return {Code::kInvalidArgument, fmt::format("{}:{}:{}: {}", name, at.line, at.column, what),
          std::move(line)};
}

std::string Token::shown() const {
  return kind == TokenKind::kEnd ? "the end of the line" : records::in_quotes(text);
}

void LineScanner::skip_spaces() noexcept {
  while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) ++at_;
  // A comment is as good as the line's end.
  if (at_ < line_.size() && line_[at_] == '#') line_ = line_.substr(0, at_);
}

bool LineScanner::is_next_sign(std::string_view signs) const noexcept {
  size_t at = at_;
  while (at < line_.size() && line_[at] == ' ') ++at;
  return at < line_.size() && signs.find(line_[at]) != std::string_view::npos;
}

void LineScanner::bad(std::string what) {
  token_.kind = TokenKind::kBad;
  token_.bytes = std::move(what);
  at_ = line_.size();
}

void LineScanner::advance() {
  if (token_.kind == TokenKind::kBad) return;
  skip_spaces();
  const size_t start = at_;
  token_ = {.kind = TokenKind::kEnd, .at = {number_, start + 1}, .text = {}, .number = 0, .bytes = {}};
  if (at_ == line_.size()) return;
  const char first = line_[at_];
  if (line_.substr(at_).starts_with("hex:")) {
    scan_hex();
  } else if (is_letter(first)) {
    scan_word();
  } else if (is_digit(first)) {
    scan_number();
  } else if (first == '"') {
    scan_string();
  } else if (kSigns.find(first) != std::string_view::npos) {
    token_.kind = TokenKind::kSign;
    ++at_;
  } else {
    ++at_;
    token_.text = line_.substr(start, 1);
    return bad(fmt::format("{} begins no word, number or text", records::in_quotes(token_.text)));
  }
  if (token_.text.empty()) token_.text = line_.substr(start, at_ - start);
}

void LineScanner::scan_word() {
  token_.kind = TokenKind::kWord;
  while (at_ < line_.size() &&
         (is_letter(line_[at_]) || is_digit(line_[at_]) || line_[at_] == '.' || line_[at_] == '-')) {
    ++at_;
  }
}

void LineScanner::scan_number() {
  token_.kind = TokenKind::kNumber;
  const size_t start = at_;
  while (at_ < line_.size() && (is_letter(line_[at_]) || is_digit(line_[at_]))) ++at_;
  token_.text = line_.substr(start, at_ - start);
  std::string digits(token_.text);
  std::erase(digits, '_');
  const bool is_hex = digits.starts_with("0x");
  const char* begin = digits.data() + (is_hex ? 2 : 0);
  const char* end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(begin, end, token_.number, is_hex ? 16 : 10);
  if (error == std::errc::result_out_of_range) {
    bad(fmt::format("{} does not fit into 64 bits", records::in_quotes(token_.text)));
  } else if (error != std::errc() || stopped != end) {
    bad(fmt::format("expected a number, as 64 or 0x40, found {}", records::in_quotes(token_.text)));
  }
}

void LineScanner::scan_string() {
  token_.kind = TokenKind::kString;
  const size_t start = at_++;
  while (at_ < line_.size() && line_[at_] != '"') {
    char letter = line_[at_++];
    if (letter == '\\') {
      const size_t escape_at = at_ - 1;
      const char kind = at_ < line_.size() ? line_[at_++] : '\0';
      const int high = kind == 'x' && at_ < line_.size() ? hex_value(line_[at_]) : -1;
      const int low = kind == 'x' && at_ + 1 < line_.size() ? hex_value(line_[at_ + 1]) : -1;
      if (kind == 'n') {
        letter = '\n';
      } else if (kind == 't') {
        letter = '\t';
      } else if (kind == '0') {
        letter = '\0';
      } else if (kind == '"' || kind == '\\') {
        letter = kind;
      } else if (high >= 0 && low >= 0) {
        letter = static_cast<char>(high * 16 + low);
        at_ += 2;
      } else {
        token_.at.column = escape_at + 1;
        token_.text = line_.substr(escape_at, at_ - escape_at);
        return bad(R"(expected \n, \t, \0, \", \\ or \x and two hexadecimal digits)");
      }
    }
    token_.bytes.push_back(letter);
  }
  if (at_ < line_.size()) {
    ++at_;
    return;
  }
  token_.text = line_.substr(start);
  bad("expected '\"' at the text's end, found the end of the line");
}

void LineScanner::scan_hex() {
  token_.kind = TokenKind::kHex;
  const size_t start = at_;
  at_ += 4;
  std::string digits;
  for (; at_ < line_.size() && line_[at_] != ' ' && line_[at_] != '\t' && line_[at_] != '\r' &&
         line_[at_] != ']';
       ++at_) {
    if (line_[at_] == '_') continue;
    if (hex_value(line_[at_]) < 0) {
      token_.at.column = at_ + 1;
      token_.text = line_.substr(at_, 1);
      return bad(fmt::format("expected a hexadecimal digit, found {}", records::in_quotes(token_.text)));
    }
    digits.push_back(line_[at_]);
  }
  token_.text = line_.substr(start, at_ - start);
  if (digits.size() % 2 != 0)
    return bad("expected two hexadecimal digits a byte, found an odd number of them");
  for (size_t i = 0; i < digits.size(); i += 2) {
    token_.bytes.push_back(static_cast<char>(hex_value(digits[i]) * 16 + hex_value(digits[i + 1])));
  }
}

}  // namespace refract::chains
