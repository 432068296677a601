// SPDX-License-Identifier: Apache-2.0
// Time comes in by this object; nothing outside base, runtime and the providers reads the operating system's
// clock.
#pragma once

#include <cstdint>

#include "refract/base/api.h"

namespace refract {

class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since some fixed moment; never goes back.
  [[nodiscard]] virtual uint64_t now_ns() const noexcept = 0;
  // Nanoseconds since 1970 UTC. The operating system's may be stepped by an administrator; a store's own
  // (memory/store_time.h) is not. Used for time to live only.
  [[nodiscard]] virtual uint64_t wall_ns() const noexcept = 0;
  // As now_ns(), but it also advances while the machine is suspended. The same for all processes of one boot.
  [[nodiscard]] virtual uint64_t boot_ns() const noexcept { return now_ns(); }
  // Whether now_ns() advances by itself, as the kernel's CLOCK_MONOTONIC does, from whatever origin: then the
  // kernel can be asked to wait for a moment of it. A clock that is moved by hand cannot be waited for.
  [[nodiscard]] virtual bool runs_by_itself() const noexcept { return false; }
};

// The operating system's clocks (CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME through the vdso). Any
// thread.
[[nodiscard]] REFRACT_API const Clock& system_clock() noexcept;

// The processor time that the calling thread has used so far, in nanoseconds. A system call.
[[nodiscard]] uint64_t thread_cpu_ns() noexcept;

// A clock that a test or the simulator moves by hand.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] uint64_t now_ns() const noexcept override { return now_ns_; }
  [[nodiscard]] uint64_t wall_ns() const noexcept override { return wall_offset_ns_ + now_ns_; }
  void advance_ns(uint64_t ns) noexcept { now_ns_ += ns; }
  void set_now_ns(uint64_t ns) noexcept { now_ns_ = ns; }
  void set_wall_offset_ns(uint64_t ns) noexcept { wall_offset_ns_ = ns; }

 private:
  uint64_t now_ns_ = 0;
  uint64_t wall_offset_ns_ = 1'700'000'000'000'000'000;
};

}  // namespace refract
