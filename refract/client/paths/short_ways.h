// SPDX-License-Identifier: Apache-2.0
// What reads may use at once, without asking which connection owns a key and whether it can be read directly.
// The peers keep it up to date.
//
// Threads: used by one thread, but a Counter is read by any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
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
  // Empty: there is one shard, or by_slot has them.
  std::vector<ShardReader> shards;
  // The same where keys are routed by their slots. Apart, so that no read by the hash asks which it is.
  std::vector<ShardReader> by_slot;
  // Of each slot, where by_slot has the shards of several nodes: an index there. Empty: of one node.
  std::vector<uint16_t> way_of_slot;
  // Of the only shard: its server answers now, and gets are calls. Null: ask the peers.
  Connection* answering = nullptr;
  uint64_t hash_seed = 0;

  // REQUIRES: `shards` is not empty.
  [[nodiscard]] const ShardReader& at(uint64_t hash) const noexcept {
    return shards[kv::KeyRouting::shard_of_hash(hash, static_cast<uint32_t>(shards.size()))];
  }
  // REQUIRES: `by_slot` is not empty.
  [[nodiscard]] const ShardReader& at_slot_of(std::span<const std::byte> key) const noexcept {
    const uint32_t slot = cluster::slot_of(key);
    if (!way_of_slot.empty()) return by_slot[way_of_slot[slot]];
    return by_slot[kv::KeyRouting::shard_of_slot(slot, static_cast<uint32_t>(by_slot.size()))];
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
