// SPDX-License-Identifier: Apache-2.0
// What a door tells of itself, and counts, for all its threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace refract::doors::redis {

struct Facts {
  std::string password = {};  // Empty: none is asked for.
  std::string node = {};      // Where the node is: the path of its socket.
  uint16_t tcp_port = 0;      // 0: the door listens at no TCP port.
  uint64_t begun_ns = 0;      // By the system's clock.
  uint32_t threads = 1;
  uint64_t memory_limit_bytes = 0;      // Of the node.
  std::string eviction = "noeviction";  // As Redis calls it.
  std::string durability = "none";      // As data.durability has it.
  std::string folder = {};              // Of what the node keeps on a disk. Empty: it keeps nothing.
  uint64_t lines_max = 0;               // Connections of all threads.
};

// Whether the node has not served yet since its start. The keeper says on the link when it does, before it
// says so to anybody else.
//
// Threads: any.
class Loading {
 public:
  Loading(bool is_loading, int keeper_link) noexcept : is_loading_(is_loading), link_(keeper_link) {}
  [[nodiscard]] bool is_so() const noexcept;
  // REQUIRES: what the keeper has said is still on the link.
  void end() noexcept { is_loading_ = false; }

 private:
  std::atomic<bool> is_loading_;
  int link_;
};

// A number that one thread changes and others read: no cache line is locked for it.
class Tally {
 public:
  // As of an atomic.
  void fetch_add(uint64_t more, std::memory_order order = std::memory_order_relaxed) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + more, order);
  }
  [[nodiscard]] uint64_t load() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_ = 0;
};

// By one thread, since its start.
struct alignas(64) Counts {
  Tally received;  // Connections.
  Tally rejected;  // Connections: there were too many.
  Tally evicted;   // Connections that held too much memory.
  Tally commands;
  Tally hits;
  Tally misses;
  Tally bytes_in;
  Tally bytes_out;
};

// By all threads, since the start or the last reset.
struct CountSums {
  uint64_t received = 0;
  uint64_t rejected = 0;
  uint64_t evicted = 0;
  uint64_t commands = 0;
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
};

// What the node has counted, and its server tells.
struct NodeCounts {
  uint64_t expired = 0;
  uint64_t evicted = 0;
};

// Threads: any.
class AllCounts {
 public:
  explicit AllCounts(size_t threads) : by_thread_(threads) {}

  // That of the thread at this place, which alone changes it.
  [[nodiscard]] Counts& of(size_t place) noexcept { return by_thread_[place]; }
  [[nodiscard]] CountSums sums() const;
  // They begin at 0 again; so does what the node counts, which is so much by now.
  void reset(const NodeCounts& now);
  // What of it has come since then. The node's server may be a later one.
  [[nodiscard]] NodeCounts since(const NodeCounts& now) const;

 private:
  [[nodiscard]] CountSums since_start() const noexcept;

  std::vector<Counts> by_thread_;
  mutable std::mutex mutex_;
  // Below, guarded by it:
  CountSums before_;
  NodeCounts node_before_;
};

}  // namespace refract::doors::redis
