// SPDX-License-Identifier: Apache-2.0
// Redis's protocol, by hiredis: commands as bytes, and replies out of the bytes that come, within bounds.
//
// What comes is hostile: a reply that is none, has too many parts or too many bytes ends the connection with
// a reason, and nothing else. hiredis's own asynchronous client asserts what a server must not say; so only
// its reader is used.
//
// Threads: an object at a time one.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/report.h"
#include "refract/object/redis/redis_line.h"

struct redisReader;  // hiredis has this name. NOLINT(readability-identifier-naming)

namespace refract::node {

// As Redis reads it.
void append_command(std::span<const std::string> arguments, std::string& bytes);

class RespReader {
 public:
  // Of one reply: parts of lists, and bytes.
  static constexpr size_t kPartsMax = 300'000;
  static constexpr size_t kBytesMax = size_t{64} << 20;

  RespReader();
  RespReader(const RespReader&) = delete;
  RespReader& operator=(const RespReader&) = delete;
  ~RespReader();

  void feed(std::string_view bytes);
  // Nothing: there is no whole reply yet. After an error there is none any more.
  [[nodiscard]] Reported<std::optional<object::RedisReply>> next();

 private:
  struct Building;
  struct Free {
    void operator()(redisReader* reader) const noexcept;
  };

  std::unique_ptr<Building> building_;  // Before the reader, which ends what it builds.
  std::unique_ptr<redisReader, Free> reader_;
  size_t unread_bytes_ = 0;  // Since the last whole reply.
};

}  // namespace refract::node
