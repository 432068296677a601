// SPDX-License-Identifier: Apache-2.0
// What the machine can do at this moment: 64 bytes there and back over shared memory and over TCP, and a copy
// of 4 MiB.
//
// Shared machines change their speed from second to second. So these are measured before and after each
// block of measurements, and a block during which they moved too far is measured again.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "bench/measure/measure.h"
#include "bench/measure/tcp_echo.h"

#include "refract/base/report.h"

namespace refract::bench {

struct Reference {
  double ping_pong_ns = 0;  // Median round trip of 64 bytes between cores 0 and 1; 0: there is one core only.
  double tcp_polling_ns = 0;  // Likewise over TCP on loopback, both ends polling, or both blocking.
  double tcp_blocking_ns = 0;
  double memcpy_gb_per_s = 0;
  double load = 0;           // The system's, over the last minute.
  double steal_percent = 0;  // Of all cores' time since the last reference: what the host gave to others.
};

// "shm 120 ns, tcp 9.1 us polling, ..."
[[nodiscard]] std::string text(const Reference& reference);

// What was measured between two of them.
struct Block {
  Reference before;
  Reference after;
  bool accepted = false;
};

// How far two references lie apart, as the largest of the ratios less 1: 0.3 is 30 %. What goes over TCP is
// compared with polling TCP, else with shared memory. Blocking TCP is not compared: it has two speeds here,
// depending on how deep an idle core sleeps.
enum class Over : uint8_t { kSharedMemory, kTcp };
inline constexpr double kDriftMax = 0.3;  // Beyond it what was measured in between is disturbed.
[[nodiscard]] double drift(const Reference& before, const Reference& after, Over over = Over::kSharedMemory);

// The other process of the ping-pong, on core 1. It sleeps while nothing is measured.
class EchoPartner {
 public:
  // Forks: call it while the process is small and has one thread.
  [[nodiscard]] static Reported<std::unique_ptr<EchoPartner>> start();
  EchoPartner(const EchoPartner&) = delete;
  EchoPartner& operator=(const EchoPartner&) = delete;
  ~EchoPartner();

  // Round trips of 64 bytes, copied in and out at both ends, timed one by one, for as long as `samples` has
  // room but not beyond 0.5 s. The caller sits on core 0.
  void ping_pong(Samples& samples);

 private:
  struct Shared;
  EchoPartner(Shared* shared, pid_t pid) noexcept : shared_(shared), pid_(pid) {}

  Shared* shared_;
  pid_t pid_;
  uint64_t turn_ = 0;
};

class References {
 public:
  // Forks, see EchoPartner. With a single core there are no partners, and no ping-pongs.
  [[nodiscard]] static Reported<std::unique_ptr<References>> start(const Timer& timer);
  // Takes about 0.15 s, on core 0, where the calling thread is left.
  [[nodiscard]] Reference measure();
  // From now on measure() says what it found first. For runs in which nothing is judged: where others use the
  // cores, a message between two of them takes as long as a turn of the scheduler.
  void keep_first() noexcept { keeps_first_ = true; }
  [[nodiscard]] EchoPartner* partner() noexcept { return partner_.get(); }
  [[nodiscard]] TcpEcho* tcp_echo() noexcept { return tcp_echo_.get(); }

 private:
  struct CpuTime {
    uint64_t stolen = 0;
    uint64_t total = 0;
  };
  References(const Timer& timer, std::unique_ptr<EchoPartner> partner, std::unique_ptr<TcpEcho> tcp_echo);
  [[nodiscard]] static CpuTime cpu_time();
  [[nodiscard]] double memcpy_gb_per_s();
  [[nodiscard]] double tcp_ns(TcpEcho::Mode mode, Samples& samples);

  Timer timer_;
  std::unique_ptr<EchoPartner> partner_;
  std::unique_ptr<TcpEcho> tcp_echo_;
  std::string source_;
  std::string target_;
  CpuTime last_;
  bool keeps_first_ = false;
  std::optional<Reference> first_;
};

}  // namespace refract::bench
