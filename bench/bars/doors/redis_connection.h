// SPDX-License-Identifier: Apache-2.0
// One blocking connection to a server that speaks Redis's protocol, for what is not a matter of its own
// speed: filling, reading back, walking.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "bench/load/resp_reader.h"

#include "refract/base/report.h"
#include "refract/memory/host/descriptor.h"

namespace refract::bench {

class RedisConnection {
 public:
  // Values of replies have at most so many bytes.
  [[nodiscard]] static Reported<RedisConnection> connect(uint16_t port, size_t value_bytes_max);

  // Appends to what flush() sends.
  void append(std::initializer_list<std::string_view> words);
  [[nodiscard]] Reported<> flush();
  // Waits for the next one. An error of the server's is an error here.
  [[nodiscard]] Reported<Reply> next();
  // Likewise, of one of that kind.
  [[nodiscard]] Reported<Reply> next(Reply::Kind kind);
  // Of the last reply, if it was one.
  [[nodiscard]] std::string_view value(const Reply& reply) const noexcept {
    return {reinterpret_cast<const char*>(target_.data()), reply.bytes};
  }

  // `count` commands, which `append` appends, some of them under way at a time; `take` takes the replies in
  // the order of the commands.
  [[nodiscard]] Reported<> run(uint64_t count, const std::function<void(uint64_t i)>& append,
                               const std::function<Reported<>(uint64_t i, const Reply& reply)>& take);

 private:
  RedisConnection(Descriptor socket, size_t value_bytes_max)
      : socket_(std::move(socket)), target_(value_bytes_max), reader_(target_) {}

  Descriptor socket_;
  std::vector<std::byte> target_;
  RespReader reader_;
  std::string out_;
};

// Keys as redis-benchmark names them, "key:000000000042", with the number of a write as the value.
[[nodiscard]] std::string numbered_key(uint64_t number);
[[nodiscard]] std::string numbered_value(uint64_t number, size_t bytes);
// Keys 0 to `keys`, each with the value of number 0; `ttl_seconds` 0: they do not expire.
[[nodiscard]] Reported<> fill_numbered(uint16_t port, uint64_t keys, size_t value_bytes,
                                       uint64_t ttl_seconds = 0);

}  // namespace refract::bench
