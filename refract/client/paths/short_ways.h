// SPDX-License-Identifier: Apache-2.0
// What reads may use at once, without asking which connection owns a key and whether it can be read directly.
// The peers keep it up to date.
//
// Threads: used by one thread, but a Counter is read by any.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "refract/client/paths/connection.h"
#include "refract/client/paths/read_ticket.h"
#include "refract/kv/layout/routing.h"

namespace refract::client {

// What reads of one shard's keys may use without asking further. Null, both: go by the connection.
struct ShardReader {
  Connection::Reader* reader = nullptr;
  Connection* connection = nullptr;  // Whose reader that is.
};

// The same of a node with one shard, which costs less to look at; and of all shards, where there are several.
struct ShortWays {
  Connection::Reader* reader = nullptr;
  Connection* connection = nullptr;
  const uint64_t* server_state = nullptr;  // Never null once there are peers.
  ReadTicket* ticket = nullptr;  // Has the only reader, too. Outlives the peers. Null: nothing asks for it.
  std::vector<ShardReader> shards;  // Empty: there is one.
  // Of the only shard: its server answers now, and gets are calls. Null: ask the peers.
  Connection* answering = nullptr;
  uint64_t hash_seed = 0;

  // REQUIRES: `shards` is not empty.
  [[nodiscard]] const ShardReader& at(uint64_t hash) const noexcept {
    return shards[kv::shard_of(hash, static_cast<uint32_t>(shards.size()))];
  }
};

// Written by one thread, read by any.
class Counter {
 public:
  void add(uint64_t count) noexcept { set(value() + count); }
  void set(uint64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
  [[nodiscard]] uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_ = 0;
};

}  // namespace refract::client
