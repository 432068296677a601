// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/request_parser.h"

#include <optional>
#include <utility>

#include "refract/doors/redis/words.h"

namespace refract::doors::redis {
namespace {

constexpr size_t kKeptWords = 256;

bool is_blank(char c) noexcept {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

std::optional<int> digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

// One word of a line from `at` on, into `word`. False: a quote does not end, or something stands behind it.
class LineWords {
 public:
  explicit LineWords(std::string_view line) noexcept : line_(line) {}

  [[nodiscard]] bool has_more() noexcept {
    while (at_ < line_.size() && is_blank(line_[at_])) ++at_;
    return at_ < line_.size();
  }
  [[nodiscard]] bool take(std::string& word) {
    while (at_ < line_.size() && !is_blank(line_[at_])) {
      const char c = line_[at_++];
      if (c == '"' || c == '\'') return take_quoted(c, word);
      word += c;
    }
    return true;
  }

 private:
  [[nodiscard]] bool take_quoted(char quote, std::string& word) {
    while (at_ < line_.size()) {
      const char c = line_[at_++];
      if (c == quote) return at_ == line_.size() || is_blank(line_[at_]);
      if (c == '\\' && at_ < line_.size()) {
        take_escaped(quote, word);
      } else {
        word += c;
      }
    }
    return false;
  }
  void take_escaped(char quote, std::string& word) {
    const char c = line_[at_];
    if (quote == '\'') {
      // There, only the quote itself can be escaped.
      if (c != '\'') {
        word += '\\';
        return;
      }
      word += c;
      ++at_;
      return;
    }
    if (c == 'x' && at_ + 2 < line_.size()) {
      const std::optional<int> high = digit_of(line_[at_ + 1]);
      const std::optional<int> low = digit_of(line_[at_ + 2]);
      if (high && low) {
        word += static_cast<char>(*high * 16 + *low);
        at_ += 3;
        return;
      }
    }
    ++at_;
    switch (c) {
      case 'n':
        word += '\n';
        break;
      case 'r':
        word += '\r';
        break;
      case 't':
        word += '\t';
        break;
      case 'b':
        word += '\b';
        break;
      case 'a':
        word += '\a';
        break;
      default:
        word += c;
    }
  }

  std::string_view line_;
  size_t at_ = 0;
};

}  // namespace

RequestParser::Step RequestParser::parse(std::string_view bytes) {
  if (stage_ == Stage::kDone) reset();
  if (stage_ == Stage::kBroken) return Step::kBroken;
  if (stage_ == Stage::kBegin) {
    const Step step = take_begin(bytes);
    if (stage_ == Stage::kBegin || step != Step::kMore) return step;
  }
  return take_bulks(bytes);
}

void RequestParser::reset() noexcept {
  stage_ = Stage::kBegin;
  at_ = 0;
  looked_ = 0;
  left_ = 0;
  length_ = 0;
  parts_.clear();
  words_.clear();
  if (parts_.capacity() > kKeptWords) parts_.shrink_to_fit();
  if (words_.capacity() > kKeptWords) words_.shrink_to_fit();
}

RequestParser::Step RequestParser::broken(std::string sentence) {
  stage_ = Stage::kBroken;
  error_ = "Protocol error: " + std::move(sentence);
  return Step::kBroken;
}

// The first line: how many bulk strings follow; or all there is.
RequestParser::Step RequestParser::take_begin(std::string_view bytes) {
  if (bytes.empty()) return Step::kMore;
  const bool is_array = bytes.front() == '*';
  const size_t end = bytes.find('\n', looked_);
  if (end == std::string_view::npos) {
    looked_ = bytes.size();
    if (bytes.size() <= kLineBytesMax) return Step::kMore;
  }
  // However it is cut.
  if (end > kLineBytesMax) {
    return broken(is_array ? "too big mbulk count string" : "too big inline request");
  }
  at_ = end + 1;
  looked_ = at_;
  std::string_view line = bytes.substr(0, end);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (!is_array) return take_inline(line);
  const std::optional<int64_t> count = integer_of(line.substr(1));
  if (!count || *count > kBulksMax) return broken("invalid multibulk length");
  if (!is_proven_ && *count > kBulksMaxUnproven) return broken("unauthenticated multibulk length");
  if (*count <= 0) {
    stage_ = Stage::kDone;
    return Step::kRequest;
  }
  left_ = *count;
  stage_ = Stage::kBulkLength;
  return Step::kMore;
}

RequestParser::Step RequestParser::take_inline(std::string_view line) {
  joined_.clear();
  LineWords words(line);
  while (words.has_more()) {
    const size_t begin = joined_.size();
    if (!words.take(joined_)) return broken("unbalanced quotes in request");
    parts_.push_back({.begin = begin, .bytes = joined_.size() - begin});
  }
  words_.reserve(parts_.size());
  for (const Word& part : parts_) words_.push_back(std::string_view(joined_).substr(part.begin, part.bytes));
  stage_ = Stage::kDone;
  return Step::kRequest;
}

RequestParser::Step RequestParser::take_bulks(std::string_view bytes) {
  while (left_ > 0) {
    if (stage_ == Stage::kBulkLength) {
      const Step step = take_bulk_length(bytes);
      if (stage_ != Stage::kBulk) return step;
    }
    if (stage_ == Stage::kBulk) {
      if (length_ > short_bytes_max_) return Step::kLong;
      if (bytes.size() - at_ < length_) return Step::kMore;
      parts_.push_back({.begin = at_, .bytes = length_});
      at_ += length_;
      stage_ = Stage::kBulkEnd;
    }
    // Whatever they are, as in Redis.
    if (bytes.size() - at_ < 2) return Step::kMore;
    at_ += 2;
    looked_ = at_;
    --left_;
    stage_ = Stage::kBulkLength;
  }
  return finish(bytes);
}

RequestParser::Step RequestParser::take_bulk_length(std::string_view bytes) {
  const size_t end = bytes.find('\n', looked_);
  if (end == std::string_view::npos) {
    looked_ = bytes.size();
    if (bytes.size() - at_ <= kLineBytesMax) return Step::kMore;
  }
  if (end == std::string_view::npos || end - at_ > kLineBytesMax) return broken("too big bulk count string");
  std::string_view line = bytes.substr(at_, end - at_);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (line.empty() || line.front() != '$') {
    return broken(std::string("expected '$', got '") + (line.empty() ? '\r' : line.front()) + "'");
  }
  const std::optional<int64_t> length = integer_of(line.substr(1));
  if (!length || *length < 0 || *length > kBulkBytesMax) return broken("invalid bulk length");
  if (!is_proven_ && *length > kBulkBytesMaxUnproven) return broken("unauthenticated bulk length");
  at_ = end + 1;
  length_ = static_cast<size_t>(*length);
  stage_ = Stage::kBulk;
  return Step::kMore;
}

RequestParser::Step RequestParser::finish(std::string_view bytes) {
  words_.reserve(parts_.size());
  for (const Word& part : parts_) {
    words_.push_back(part.elsewhere == nullptr ? bytes.substr(part.begin, part.bytes)
                                               : std::string_view(part.elsewhere, part.bytes));
  }
  stage_ = Stage::kDone;
  return Step::kRequest;
}

std::string_view RequestParser::first_word(std::string_view bytes) const noexcept {
  if (parts_.empty() || parts_.front().elsewhere != nullptr) return {};
  return bytes.substr(parts_.front().begin, parts_.front().bytes);
}

void RequestParser::put_long(std::string_view word) {
  parts_.push_back({.begin = 0, .bytes = word.size(), .elsewhere = word.data()});
  stage_ = Stage::kBulkEnd;
}

}  // namespace refract::doors::redis
