// SPDX-License-Identifier: Apache-2.0
// Clients of Redis for what several commands do together: transactions and scripts. Nothing else writes the
// keys, so that the length of each answer is known, and a client that polls need not take it apart.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/report.h"
#include "refract/memory/host/descriptor.h"

namespace refract::bench {

// Appends a command of these arguments, as Redis takes it.
void append_command(std::string& to, std::initializer_list<std::string_view> arguments);

// One connection, and so many requests under way; those that come back together are followed by as many, by
// one system call.
class RedisPipeline {
 public:
  [[nodiscard]] static Reported<RedisPipeline> connect(uint16_t port);

  struct Requests {
    uint64_t count = 0;
    size_t depth = 1;
    std::function<void(std::string& to, uint64_t i)> append;
    std::string_view answer_like;  // An answer: all have its length, and its first byte.
  };
  [[nodiscard]] Reported<> run(const Requests& requests);
  // The script's name for EVALSHA.
  [[nodiscard]] Reported<std::string> load_script(std::string_view script);

 private:
  explicit RedisPipeline(Descriptor socket) : socket_(std::move(socket)) {}
  [[nodiscard]] Reported<> send();
  [[nodiscard]] Reported<> receive();

  Descriptor socket_;
  std::string out_;
  std::string in_;
};

// Transactions that watch two keys, read both and write both: WATCH and MGET together, then MULTI, MSET and
// EXEC together. A connection can watch for one transaction only, so each has its own; one thread serves all.
class RedisWatchers {
 public:
  [[nodiscard]] static Reported<RedisWatchers> connect(uint16_t port, size_t connections);

  // The first of two neighbours, by the index of an entry (bench/load/entry.h).
  [[nodiscard]] Reported<> run(uint64_t count, const std::function<uint64_t(size_t connection)>& next_pair);

 private:
  struct Connection {
    Descriptor socket;
    uint64_t first_key = 0;
    size_t awaited_bytes = 0;
    bool is_writing = false;
    std::string answer;
  };
  [[nodiscard]] static Reported<> send(Connection& connection, const std::string& commands,
                                       size_t answer_bytes);
  [[nodiscard]] static Reported<> begin(Connection& connection, uint64_t first_key);
  [[nodiscard]] static Reported<> write(Connection& connection);
  // Whether its transaction has ended.
  [[nodiscard]] static Reported<bool> go_on(Connection& connection);

  std::vector<Connection> connections_;
  Descriptor poll_;
};

}  // namespace refract::bench
