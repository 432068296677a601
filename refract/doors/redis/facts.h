// SPDX-License-Identifier: Apache-2.0
// What a door tells of itself, and counts, for all its threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

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

struct Counts {
  std::atomic<uint64_t> next_id{1};      // Of connections.
  std::atomic<uint64_t> connections{0};  // Now.
  std::atomic<uint64_t> blocked{0};      // Those among them whose command waits, as WAIT does.
  // Since the start, or CONFIG RESETSTAT:
  std::atomic<uint64_t> received{0};  // Connections.
  std::atomic<uint64_t> rejected{0};  // There were too many.
  std::atomic<uint64_t> evicted{0};   // They held too much memory.
  std::atomic<uint64_t> commands{0};
  std::atomic<uint64_t> hits{0};
  std::atomic<uint64_t> misses{0};
  std::atomic<uint64_t> bytes_in{0};
  std::atomic<uint64_t> bytes_out{0};
  std::atomic<uint64_t> expired_before{0};  // Entries, as the node counts them.
};

}  // namespace refract::doors::redis
