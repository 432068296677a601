// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/request_parser.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/prng.h"

namespace refract::doors::redis {
namespace {

using Step = RequestParser::Step;
using Words = std::vector<std::string>;

std::string array_of(const Words& words) {
  std::string bytes = fmt::format("*{}\r\n", words.size());
  for (const std::string& word : words) bytes += fmt::format("${}\r\n{}\r\n", word.size(), word);
  return bytes;
}

// As a connection does it: what was taken goes, and what comes stands behind the rest.
class Stream {
 public:
  explicit Stream(size_t short_bytes_max = RequestParser::kShortBytesMax) : parser(short_bytes_max) {}

  // Of the requests that are whole now. An error ends it.
  void take(std::string_view bytes) {
    bytes_ += bytes;
    while (error.empty()) {
      if (is_long_ && !take_long()) return;
      // Elsewhere each time, as after a buffer has grown.
      const std::string moved = bytes_;
      const Step step = parser.parse(moved);
      if (step == Step::kMore) return;
      if (step == Step::kLong) {
        long_places.push_back(parser.long_place());
        long_words_.emplace_back();
        is_long_ = true;
        continue;
      }
      if (step == Step::kBroken) {
        error = parser.error();
        return;
      }
      requests.emplace_back(parser.words().begin(), parser.words().end());
      bytes_.erase(0, parser.taken());
    }
  }
  [[nodiscard]] size_t left() const { return bytes_.size(); }

  RequestParser parser;
  std::vector<Words> requests;
  std::vector<size_t> long_places;
  std::string error;

 private:
  // True: it is whole.
  bool take_long() {
    std::string& word = long_words_.back();
    const size_t came = std::min(parser.long_bytes() - word.size(), bytes_.size() - parser.taken());
    word += bytes_.substr(parser.taken(), came);
    bytes_.erase(parser.taken(), came);
    if (word.size() < parser.long_bytes()) return false;
    parser.put_long(word);
    is_long_ = false;
    return true;
  }

  std::string bytes_;
  std::list<std::string> long_words_;
  bool is_long_ = false;
};

std::vector<Words> parsed(std::string_view bytes) {
  Stream stream;
  stream.take(bytes);
  EXPECT_EQ(stream.error, "") << bytes;
  EXPECT_EQ(stream.left(), 0u) << bytes;
  return stream.requests;
}

std::string error_of(std::string_view bytes) {
  Stream stream;
  stream.take(bytes);
  EXPECT_TRUE(stream.requests.empty()) << bytes;
  return stream.error;
}

TEST(RequestParser, arrays_of_bulk_strings_are_requests) {
  EXPECT_EQ(parsed("*1\r\n$4\r\nPING\r\n"), (std::vector<Words>{{"PING"}}));
  EXPECT_EQ(parsed("*2\r\n$3\r\nGET\r\n$0\r\n\r\n*0\r\n*-1\r\n"), (std::vector<Words>{{"GET", ""}, {}, {}}));
  const Words binary = {"SET", std::string("\0\r\n$5\r\n", 8), std::string(100'000, '*')};
  EXPECT_EQ(parsed(array_of(binary)), std::vector<Words>{binary});
  Words most(10'000, "k");
  EXPECT_EQ(parsed(array_of(most)), std::vector<Words>{most});
}

TEST(RequestParser, lines_are_requests_of_words) {
  EXPECT_EQ(parsed("PING\r\n"), (std::vector<Words>{{"PING"}}));
  EXPECT_EQ(parsed("  set \t key   value \nget key\r\n\r\n"),
            (std::vector<Words>{{"set", "key", "value"}, {"get", "key"}, {}}));
}

TEST(RequestParser, quotes_and_escapes_of_lines_are_those_of_redis) {
  EXPECT_EQ(parsed(R"(set "a b\x41\n\q" 'c \n\'d' plain\n)"
                   "\r\n"),
            (std::vector<Words>{{"set", "a bA\nq", "c \\n'd", "plain\\n"}}));
  EXPECT_EQ(parsed("\"\" ''\r\n"), (std::vector<Words>{{"", ""}}));
  for (const char* line :
       {"set \"a\r\n", "set 'a\r\n", "set \"a\"b\r\n", "set 'a'b\r\n", "set \"a\\\"\r\n"}) {
    EXPECT_EQ(error_of(line), "Protocol error: unbalanced quotes in request") << line;
  }
}

TEST(RequestParser, what_no_request_can_be_breaks_the_stream_with_the_words_of_redis) {
  EXPECT_EQ(error_of("*x\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*1048577\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*01\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*99999999999999999999\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*1\r\n+OK\r\n"), "Protocol error: expected '$', got '+'");
  EXPECT_EQ(error_of("*1\r\n$-1\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error_of("*1\r\n$536870913\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error_of("*1\r\n$ 1\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error_of("*" + std::string(70'000, '1')), "Protocol error: too big mbulk count string");
  EXPECT_EQ(error_of("*1\r\n$" + std::string(70'000, '1')), "Protocol error: too big bulk count string");
  EXPECT_EQ(error_of(std::string(70'000, 'x')), "Protocol error: too big inline request");
  // For good.
  Stream stream;
  stream.take("*x\r\n");
  EXPECT_EQ(stream.parser.parse("*1\r\n$4\r\nPING\r\n"), Step::kBroken);
}

TEST(RequestParser, who_has_not_proven_itself_sends_short_requests_alone) {
  const auto error = [](const std::string& bytes) {
    Stream stream;
    stream.parser.set_proven(false);
    stream.take(bytes);
    return stream.error;
  };
  EXPECT_EQ(error("*10\r\n$16384\r\n"), "");
  EXPECT_EQ(error("*11\r\n"), "Protocol error: unauthenticated multibulk length");
  EXPECT_EQ(error("*1\r\n$16385\r\n"), "Protocol error: unauthenticated bulk length");
}

TEST(RequestParser, a_stream_that_is_cut_anywhere_has_the_same_requests) {
  Prng prng(7);
  for (int round = 0; round < 200; ++round) {
    std::string bytes;
    std::vector<Words> wanted;
    for (uint64_t i = prng.below(6); i < 6; ++i) {
      Words words;
      for (uint64_t k = prng.below(4); k < 4; ++k) words.emplace_back(prng.below(40), 'a');
      const bool is_line = prng.below(3) == 0;
      std::erase(words, is_line ? "" : "none");
      std::string line;
      for (const std::string& word : words) line += word + " ";
      bytes += is_line ? line + "\r\n" : array_of(words);
      wanted.push_back(words);
    }
    Stream stream;
    for (size_t at = 0; at < bytes.size();) {
      const size_t next = std::min<size_t>(bytes.size() - at, 1 + prng.below(round % 2 == 0 ? 3 : 60));
      stream.take(std::string_view(bytes).substr(at, next));
      at += next;
    }
    ASSERT_EQ(stream.error, "") << "seed 7, round " << round << ": " << bytes;
    ASSERT_EQ(stream.requests, wanted) << "seed 7, round " << round << ": " << bytes;
  }
}

// A byte at a time over a megabyte takes a moment, and would take minutes if each began at the front.
TEST(RequestParser, what_was_parsed_is_not_parsed_again) {
  const std::string line(60'000, 'x');
  RequestParser parser;
  for (size_t i = 1; i <= line.size(); ++i)
    ASSERT_EQ(parser.parse(std::string_view(line).substr(0, i)), Step::kMore);
  Words words(20'000, "k");
  const std::string bytes = array_of(words);
  RequestParser other;
  for (size_t i = 1; i < bytes.size(); ++i)
    ASSERT_EQ(other.parse(std::string_view(bytes).substr(0, i)), Step::kMore);
  EXPECT_EQ(other.parse(bytes), Step::kRequest);
  EXPECT_EQ(other.words().size(), words.size());
}

// However the stream is cut: inside of the long word, in front of it, behind it.
TEST(RequestParser, long_words_are_received_by_themselves) {
  const Words request = {"SET", "key", std::string(100, 'v'), "EX", std::string(17, '9')};
  const std::string bytes = array_of(request) + array_of({"PING"}) + array_of(request);
  for (size_t step = 1; step <= bytes.size(); ++step) {
    Stream stream(16);
    for (size_t at = 0; at < bytes.size(); at += step) stream.take(std::string_view(bytes).substr(at, step));
    EXPECT_EQ(stream.requests, (std::vector<Words>{request, {"PING"}, request})) << step;
    EXPECT_EQ(stream.long_places, (std::vector<size_t>{2, 4, 2, 4})) << step;
    EXPECT_EQ(stream.left(), 0u) << step;
  }
}

}  // namespace
}  // namespace refract::doors::redis
