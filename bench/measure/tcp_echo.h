// SPDX-License-Identifier: Apache-2.0
// The floor of everything that goes over TCP: 64 bytes there and back over loopback between two processes,
// with plain blocking calls or with calls that poll.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "bench/measure/measure.h"

#include "refract/base/report.h"
#include "refract/memory/host/descriptor.h"

namespace refract::bench {

class TcpEcho {
 public:
  enum class Mode : uint64_t { kBlocking, kPolling };

  // Forks, so call it while the process is small and has one thread. The other process sits on core 1, and
  // sleeps while nothing is measured.
  [[nodiscard]] static Reported<std::unique_ptr<TcpEcho>> start();
  TcpEcho(const TcpEcho&) = delete;
  TcpEcho& operator=(const TcpEcho&) = delete;
  ~TcpEcho();

  // `count` round trips timed one by one, both ends polling or both blocking, after some that are not
  // recorded. The caller sits on core 0. False: the other process is gone.
  [[nodiscard]] bool ping_pong(Mode mode, size_t count, Samples& samples);
  // One blocking round trip, in ticks; 0: the other process is gone. After a pause, it is what waking a
  // sleeping server and being woken by it cost.
  [[nodiscard]] uint64_t wake_up();

 private:
  TcpEcho(Descriptor socket, pid_t pid) noexcept : socket_(std::move(socket)), pid_(pid) {}
  // In ticks; the other end is in `next` from then on.
  [[nodiscard]] uint64_t round_trip(Mode mode, Mode next);

  Descriptor socket_;
  pid_t pid_;
};

}  // namespace refract::bench
