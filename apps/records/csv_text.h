// SPDX-License-Identifier: Apache-2.0
// The texts of CSV (RFC 4180) and TSV, taken apart and put together; knows nothing of files and headers.
//
// CSV: fields are separated by commas, records by "\n" or "\r\n"; a field that begins with a quote ends with
// one, may hold commas and line breaks, and doubles its quotes. A quote inside a field that did not begin
// with one is an ordinary byte. TSV: a line is a record, a tab separates, nothing is quoted; escapes are
// spelled \t \n \r \\.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace refract::records {

// Finds where a CSV record ends in a text that arrives in pieces.
class CsvScanner {
 public:
  // Continues where the last call stopped. True when the record's end was found: then its line break is at
  // end().
  [[nodiscard]] bool advance(std::string_view text) noexcept;
  // The first `bytes` of the text were thrown away; what is still to come is as before.
  void forget(size_t bytes) noexcept { at_ -= bytes; }

  [[nodiscard]] size_t end() const noexcept {
    return at_;
  }  // So far scanned; at the end, the line break's offset.
  [[nodiscard]] bool in_quotes() const noexcept { return state_ == State::kQuoted; }

 private:
  enum class State : uint8_t { kFieldStart, kPlain, kQuoted, kAfterQuote };
  size_t at_ = 0;
  State state_ = State::kFieldStart;
};

// One field as offsets into its record's text.
struct Field {
  size_t begin;  // Of the content: behind the opening quote, where there is one.
  size_t end;
  bool quoted;
};

enum class SplitFault : uint8_t { kNone, kTextAfterQuote, kUnclosedQuote, kTooManyColumns };

// More columns than this are one bad record: the offsets must not take more memory than the text.
inline constexpr size_t kColumnsMax = 4096;

// Takes a record's text (without line break) apart. On a fault, `fields` holds those before it.
[[nodiscard]] SplitFault split_csv(std::string_view text, std::vector<Field>& fields) noexcept;
[[nodiscard]] SplitFault split_tsv(std::string_view text, std::vector<Field>& fields) noexcept;

// Appends what the content of a quoted field means: doubled quotes become one.
void append_csv_unquoted(std::string& out, std::string_view content);
// Appends what an escaped TSV field means. False where a backslash begins no escape.
[[nodiscard]] bool append_tsv_unescaped(std::string& out, std::string_view content);

[[nodiscard]] bool csv_needs_quotes(std::string_view field) noexcept;
// Appends `piece` of a field with its quotes doubled; the caller writes the quotes around the field.
void append_csv_quoted(std::string& out, std::string_view piece);
void append_tsv_escaped(std::string& out, std::string_view piece);

}  // namespace refract::records
