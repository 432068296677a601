// SPDX-License-Identifier: Apache-2.0
// The parser over any bytes, cut anywhere: what it gives lies in what came, and does not depend on the cuts.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "refract/doors/redis/request_parser.h"

namespace {

using refract::doors::redis::RequestParser;

// Words of more than 8 bytes are long ones where `has_long` says so: what they are does not depend on that.
std::vector<std::string> requests_of(std::string_view bytes, size_t step, bool has_long) {
  const size_t short_max = has_long ? 8 : RequestParser::kShortBytesMax;
  RequestParser parser(short_max);
  std::vector<std::string> requests;
  std::string held;
  std::list<std::string> long_words;
  bool is_long = false;
  for (size_t at = 0; at < bytes.size();) {
    const size_t next = std::min(step, bytes.size() - at);
    held += bytes.substr(at, next);
    at += next;
    for (;;) {
      if (is_long) {
        std::string& word = long_words.back();
        const size_t came = std::min(parser.long_bytes() - word.size(), held.size() - parser.taken());
        word += held.substr(parser.taken(), came);
        held.erase(parser.taken(), came);
        if (word.size() < parser.long_bytes()) break;
        is_long = false;
        parser.put_long(word);
      }
      const auto outcome = parser.parse(held);
      if (outcome == RequestParser::Step::kLong) {
        if (parser.first_word(held).size() > short_max) std::abort();
        long_words.emplace_back();
        is_long = true;
        continue;
      }
      if (outcome == RequestParser::Step::kBroken) {
        requests.push_back("broken: " + parser.error());
        return requests;
      }
      if (outcome == RequestParser::Step::kMore) break;
      std::string request;
      for (const std::string_view word : parser.words())
        request += std::to_string(word.size()) + ":" + std::string(word);
      requests.push_back(std::move(request));
      if (parser.taken() > held.size()) std::abort();
      held.erase(0, parser.taken());
      long_words.clear();
    }
  }
  return requests;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t step = 1 + data[0] % 64;
  const std::vector<std::string> whole = requests_of(bytes, bytes.size() + 1, false);
  if (requests_of(bytes, step, false) != whole || requests_of(bytes, step, true) != whole) std::abort();
  return 0;
}
