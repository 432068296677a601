// SPDX-License-Identifier: Apache-2.0
// Takes a line of a chain's text apart into tokens that know where they stand.
//
// Threads: one. Tokens refer to the text, which outlives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "refract/base/report.h"

namespace refract::chains {

// Lines and columns count from 1; a column is a byte.
struct Position {
  size_t line = 0;
  size_t column = 0;
  bool operator==(const Position&) const = default;
};

// The text as errors quote it.
struct SourceText {
  std::string_view name;  // Of the file, for messages.
  std::string_view text;

  // "FILE:3:15: WHAT", and below it the line with a mark under the place; `hint` stands behind the mark.
  [[nodiscard]] Report error(Position at, std::string_view what, std::string_view hint = {}) const;
};

enum class TokenKind : uint8_t { kEnd, kWord, kNumber, kString, kHex, kSign, kBad };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  Position at;
  std::string_view text;  // As written.
  uint64_t number = 0;    // kNumber
  std::string bytes;      // kString, kHex: what it stands for. kBad: what is wrong.

  [[nodiscard]] bool is(std::string_view word) const noexcept {
    return (kind == TokenKind::kWord || kind == TokenKind::kSign) && text == word;
  }
  // "'indirect'", or "the end of the line".
  [[nodiscard]] std::string shown() const;
};

// The tokens of one line. Behind the last comes kEnd, for ever; a kBad one is the last.
class LineScanner {
 public:
  LineScanner(std::string_view line, size_t number) noexcept : line_(line), number_(number) { advance(); }

  [[nodiscard]] const Token& token() const noexcept { return token_; }
  void advance();
  // Whether the one behind token() is this sign.
  [[nodiscard]] bool is_next_sign(std::string_view signs) const noexcept;

 private:
  void skip_spaces() noexcept;
  void scan_word();
  void scan_number();
  void scan_string();
  void scan_hex();
  void bad(std::string what);

  std::string_view line_;
  size_t number_;
  size_t at_ = 0;
  Token token_;
};

}  // namespace refract::chains
