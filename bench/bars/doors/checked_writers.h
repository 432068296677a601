// SPDX-License-Identifier: Apache-2.0
// Connections to a server that speaks Redis's protocol, one SET in flight on each, which remember what was
// acknowledged and outlive what happens to the server: a connection that ends is counted, made again, and
// its write repeated.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "refract/base/report.h"
#include "refract/memory/host/descriptor.h"

namespace refract::bench {

class CheckedWriters {
 public:
  // The server holds the keys 0 to `keys` as fill_numbered() has them. Each connection has every `count`th
  // of them to itself.
  [[nodiscard]] static Reported<CheckedWriters> connect(uint16_t port, size_t count, uint64_t keys,
                                                        size_t value_bytes);

  // Begins writes until that moment. Those under way stay so.
  [[nodiscard]] Reported<> write_until(uint64_t end_ns);
  // Until all are acknowledged. kDeadlineExceeded: one is not, however long it is waited for.
  [[nodiscard]] Reported<> finish();
  // Reads all keys. kCorrupt: one does not hold what was acknowledged last.
  [[nodiscard]] Reported<> check() const;

  [[nodiscard]] uint64_t acknowledged() const noexcept { return acknowledged_; }
  [[nodiscard]] uint64_t connections_lost() const noexcept { return lost_; }
  // From its beginning to its acknowledgement, over all connections that it took; since the last call.
  [[nodiscard]] uint64_t take_longest_ns() noexcept;

 private:
  struct Writer {
    Descriptor socket;
    uint64_t key = 0;
    uint64_t number = 0;  // What it writes there.
    uint64_t begun_ns = 0;
    bool is_busy = false;
    std::string reply;
  };

  CheckedWriters(uint16_t port, size_t count, uint64_t keys, size_t value_bytes);
  [[nodiscard]] Reported<> join(size_t index);
  void begin(size_t index);
  // False: the connection has ended.
  [[nodiscard]] bool send(Writer& writer);
  [[nodiscard]] Reported<> turn();
  [[nodiscard]] Reported<> hear(size_t index);

  uint16_t port_;
  size_t value_bytes_;
  Descriptor epoll_;
  std::vector<Writer> writers_;
  std::vector<uint64_t> held_;  // The number that was acknowledged last, of each key.
  std::string command_;
  uint64_t numbers_ = 0;
  uint64_t acknowledged_ = 0;
  uint64_t lost_ = 0;
  uint64_t longest_ns_ = 0;
};

}  // namespace refract::bench
