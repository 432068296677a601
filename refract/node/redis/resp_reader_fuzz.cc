// SPDX-License-Identifier: Apache-2.0
// Any bytes as replies of a Redis, in pieces of any lengths: each is a reply, or the reason why it is none.
#include <algorithm>
#include <cstdint>
#include <string>

#include "refract/base/check.h"
#include "refract/node/redis/resp_reader.h"

namespace {

size_t parts_of(const refract::object::RedisReply& reply) {
  size_t parts = 1;
  for (const auto& item : reply.items) parts += parts_of(item);
  return parts;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using refract::node::RespReader;
  if (size == 0) return 0;
  const size_t piece = 1 + data[0];
  RespReader reader;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  for (size_t at = 0; at < bytes.size(); at += piece) {
    reader.feed(bytes.substr(at, piece));
    for (;;) {
      auto reply = reader.next();
      if (!reply) {
        REFRACT_CHECK(!reply.error().what.empty());
        REFRACT_CHECK(!reader.next());
        return 0;
      }
      if (!*reply) break;
      REFRACT_CHECK(parts_of(**reply) <= RespReader::kPartsMax + 1);
    }
  }
  return 0;
}
