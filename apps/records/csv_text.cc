// SPDX-License-Identifier: Apache-2.0
#include "apps/records/csv_text.h"

#include <algorithm>

namespace refract::records {

bool CsvScanner::advance(std::string_view text) noexcept {
  if (at_ == 0 && state_ == State::kFieldStart) {
    // Most records are one line without a quote: two runs of memchr instead of a step for each byte.
    const size_t line_break = text.find('\n');
    if (line_break != std::string_view::npos &&
        text.substr(0, line_break).find('"') == std::string_view::npos) {
      at_ = line_break;
      return true;
    }
  }
  while (at_ < text.size()) {
    const char byte = text[at_];
    switch (state_) {
      case State::kFieldStart:
        if (byte == '"') {
          state_ = State::kQuoted;
          ++at_;
          break;
        }
        state_ = State::kPlain;
        [[fallthrough]];
      case State::kPlain: {
        while (at_ < text.size() && text[at_] != ',' && text[at_] != '\n') ++at_;
        if (at_ == text.size()) return false;
        if (text[at_] == '\n') return true;
        state_ = State::kFieldStart;
        ++at_;
        break;
      }
      case State::kQuoted: {
        const size_t quote = text.find('"', at_);
        if (quote == std::string_view::npos) {
          at_ = text.size();
          return false;
        }
        at_ = quote + 1;
        state_ = State::kAfterQuote;
        break;
      }
      case State::kAfterQuote:
        if (byte == '"') {
          state_ = State::kQuoted;
          ++at_;
        } else {
          state_ = State::kPlain;
        }
        break;
    }
  }
  return false;
}

namespace {

// The offset of the quote that closes the content beginning at `from`, or npos.
size_t closing_quote(std::string_view text, size_t from) noexcept {
  for (size_t at = text.find('"', from); at != std::string_view::npos; at = text.find('"', at + 2)) {
    if (at + 1 >= text.size() || text[at + 1] != '"') return at;
  }
  return std::string_view::npos;
}

}  // namespace

SplitFault split_csv(std::string_view text, std::vector<Field>& fields) noexcept {
  fields.clear();
  size_t at = 0;
  for (;;) {
    if (fields.size() == kColumnsMax) return SplitFault::kTooManyColumns;
    size_t after;
    if (at < text.size() && text[at] == '"') {
      const size_t close = closing_quote(text, at + 1);
      if (close == std::string_view::npos) return SplitFault::kUnclosedQuote;
      after = close + 1;
      if (after < text.size() && text[after] != ',') return SplitFault::kTextAfterQuote;
      fields.push_back({.begin = at + 1, .end = close, .quoted = true});
    } else {
      after = std::min(text.find(',', at), text.size());
      fields.push_back({.begin = at, .end = after, .quoted = false});
    }
    if (after >= text.size()) return SplitFault::kNone;
    at = after + 1;
  }
}

SplitFault split_tsv(std::string_view text, std::vector<Field>& fields) noexcept {
  fields.clear();
  for (size_t at = 0;;) {
    if (fields.size() == kColumnsMax) return SplitFault::kTooManyColumns;
    const size_t end = std::min(text.find('\t', at), text.size());
    fields.push_back({.begin = at, .end = end, .quoted = false});
    if (end >= text.size()) return SplitFault::kNone;
    at = end + 1;
  }
}

void append_csv_unquoted(std::string& out, std::string_view content) {
  for (;;) {
    const size_t quote = content.find('"');
    if (quote == std::string_view::npos) break;
    out.append(content.substr(0, quote + 1));
    content.remove_prefix(std::min(quote + 2, content.size()));
  }
  out.append(content);
}

bool append_tsv_unescaped(std::string& out, std::string_view content) {
  for (;;) {
    const size_t slash = content.find('\\');
    out.append(content.substr(0, slash));
    if (slash == std::string_view::npos) return true;
    if (slash + 1 == content.size()) return false;
    switch (content[slash + 1]) {
      case 't':
        out.push_back('\t');
        break;
      case 'n':
        out.push_back('\n');
        break;
      case 'r':
        out.push_back('\r');
        break;
      case '\\':
        out.push_back('\\');
        break;
      default:
        return false;
    }
    content.remove_prefix(slash + 2);
  }
}

bool csv_needs_quotes(std::string_view field) noexcept {
  return field.find_first_of(",\"\r\n") != std::string_view::npos;
}

void append_csv_quoted(std::string& out, std::string_view piece) {
  for (;;) {
    const size_t quote = piece.find('"');
    if (quote == std::string_view::npos) break;
    out.append(piece.substr(0, quote));
    out.append("\"\"");
    piece.remove_prefix(quote + 1);
  }
  out.append(piece);
}

void append_tsv_escaped(std::string& out, std::string_view piece) {
  for (;;) {
    const size_t special = piece.find_first_of("\t\n\r\\");
    out.append(piece.substr(0, special));
    if (special == std::string_view::npos) return;
    out.push_back('\\');
    switch (piece[special]) {
      case '\t':
        out.push_back('t');
        break;
      case '\n':
        out.push_back('n');
        break;
      case '\r':
        out.push_back('r');
        break;
      default:
        out.push_back('\\');
        break;
    }
    piece.remove_prefix(special + 1);
  }
}

}  // namespace refract::records
