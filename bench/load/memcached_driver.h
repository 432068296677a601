// SPDX-License-Identifier: Apache-2.0
// One client of a memcached over TCP: pipelined GETs and SETs of its binary protocol, which takes any bytes
// as a key, and is as fast there as the meta commands, within what two runs differ by: 0.9 us of the server's
// time a get, 1.0 to 1.3 a set, 64 in flight; a classic "get" takes 7, as each is a system call of its own. A
// kReplace is a GET and a SET of the version that it brought.
#pragma once

#include <cstdint>
#include <memory>

#include "bench/load/memcached_reader.h"
#include "bench/load/pipelined_driver.h"

namespace refract::bench {

class MemcachedDriver final : public PipelinedDriver {
 public:
  // REQUIRES: keys of at most kMemcachedKeyBytesMax.
  [[nodiscard]] static Reported<std::unique_ptr<MemcachedDriver>> connect(uint16_t port,
                                                                          const DriverOptions& options,
                                                                          const Contents& contents);

 private:
  MemcachedDriver(Descriptor socket, const DriverOptions& options, const Contents& contents);
  void ask(Slot& slot) override;
  [[nodiscard]] Answer take_answer(Slot* slot) override;
  [[nodiscard]] std::span<iovec> room() noexcept override { return reader_.room(); }
  void received(size_t bytes) noexcept override { reader_.received(bytes); }
  void append_request(const Slot& slot, MemcachedOp op, uint64_t version);
  [[nodiscard]] static Answer refused(const MemcachedReply& reply);

  MemcachedReader reader_;
};

}  // namespace refract::bench
