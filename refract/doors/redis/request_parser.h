// SPDX-License-Identifier: Apache-2.0
// Requests of Redis's protocol, taken apart as their bytes come: an array of bulk strings, or a line of words
// as a person types it into telnet. Limits and sentences are Redis's own.
//
// The bytes of a request stay where the caller has received them; those of a long word go to memory of its
// own. What was parsed of a request that is not whole yet is not parsed again, so the work is linear, however
// the stream is cut.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace refract::doors::redis {

class RequestParser {
 public:
  static constexpr size_t kLineBytesMax = 64 * 1024;
  static constexpr int64_t kBulksMax = 1024 * 1024;
  static constexpr int64_t kBulkBytesMax = int64_t{512} << 20;
  // Of a connection that has not said who it is.
  static constexpr int64_t kBulksMaxUnproven = 10;
  static constexpr int64_t kBulkBytesMaxUnproven = 16 * 1024;
  static constexpr size_t kShortBytesMax = 16 * 1024;

  // A word of more than `short_bytes_max` is a long one, which is received by itself.
  explicit RequestParser(size_t short_bytes_max = kShortBytesMax) noexcept
      : short_bytes_max_(short_bytes_max) {}

  enum class Step : uint8_t {
    kMore,     // The request is not whole.
    kRequest,  // words() are there. May be empty: an empty line, or an array of none.
    kLong,     // A long word begins at taken(): its bytes leave the stream, and put_long() has them.
    kBroken,   // The stream cannot be understood from here on: error().
  };

  // `bytes` begins where the request does, and is what came of it and behind it so far: as in the last call,
  // and more behind. Behind kRequest the next call is for the next request, which begins at taken().
  [[nodiscard]] Step parse(std::string_view bytes);

  // REQUIRES: kRequest. In `bytes` of that call; of a line, in the parser; of a long word, where it was put.
  [[nodiscard]] const std::vector<std::string_view>& words() const noexcept { return words_; }
  // How many bytes of `bytes` the request had.
  [[nodiscard]] size_t taken() const noexcept { return at_; }

  // REQUIRES: kLong, and `bytes` of that call. How long it is, its place among the words, and the first word,
  // which may be missing.
  [[nodiscard]] size_t long_bytes() const noexcept { return length_; }
  [[nodiscard]] size_t long_place() const noexcept { return parts_.size(); }
  [[nodiscard]] std::string_view first_word(std::string_view bytes) const noexcept;
  // REQUIRES: kLong. The word, which stays until the request is over. In what parse() is given next, what
  // followed it stands behind what stood before it.
  void put_long(std::string_view word);

  [[nodiscard]] const std::string& error() const noexcept { return error_; }

  // Whether the connection has proven itself, or need not: larger requests are taken then.
  void set_proven(bool is_proven) noexcept { is_proven_ = is_proven; }

  // Memory of what was parsed.
  [[nodiscard]] size_t held_bytes() const noexcept {
    return parts_.capacity() * sizeof(Word) + words_.capacity() * sizeof(std::string_view);
  }

  // Whether nothing of a request was parsed.
  [[nodiscard]] bool is_between() const noexcept { return stage_ == Stage::kBegin; }

 private:
  enum class Stage : uint8_t { kBegin, kBulkLength, kBulk, kBulkEnd, kDone, kBroken };

  struct Word {
    size_t begin = 0;
    size_t bytes = 0;
    const char* elsewhere = nullptr;  // A long one.
  };

  [[nodiscard]] Step take_begin(std::string_view bytes);
  [[nodiscard]] Step take_inline(std::string_view line);
  [[nodiscard]] Step take_bulks(std::string_view bytes);
  [[nodiscard]] Step take_bulk_length(std::string_view bytes);
  [[nodiscard]] Step finish(std::string_view bytes);
  [[nodiscard]] Step broken(std::string sentence);
  void reset() noexcept;

  const size_t short_bytes_max_;
  Stage stage_ = Stage::kBegin;
  bool is_proven_ = true;
  size_t at_ = 0;      // Parsed so far.
  size_t looked_ = 0;  // No end of a line stands before.
  int64_t left_ = 0;   // Bulk strings that are still to come.
  size_t length_ = 0;  // Of the bulk string under way.
  std::vector<Word> parts_;
  std::vector<std::string_view> words_;
  std::string joined_;  // The words of a line, whose quotes are gone.
  std::string error_;
};

}  // namespace refract::doors::redis
