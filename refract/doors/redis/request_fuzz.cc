// SPDX-License-Identifier: Apache-2.0
// The parser over any bytes, cut anywhere: what it gives lies in what came, and does not depend on the cuts.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "refract/doors/redis/request_parser.h"

namespace {

using refract::doors::redis::RequestParser;

std::vector<std::string> requests_of(std::string_view bytes, size_t step) {
  RequestParser parser;
  std::vector<std::string> requests;
  std::string held;
  for (size_t at = 0; at < bytes.size();) {
    const size_t next = std::min(step, bytes.size() - at);
    held += bytes.substr(at, next);
    at += next;
    for (;;) {
      const auto outcome = parser.parse(held);
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
    }
  }
  return requests;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t step = 1 + data[0] % 64;
  if (requests_of(bytes, step) != requests_of(bytes, bytes.size() + 1)) std::abort();
  return 0;
}
