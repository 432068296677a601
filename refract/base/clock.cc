// SPDX-License-Identifier: Apache-2.0
#include "refract/base/clock.h"

#include <time.h>

namespace refract {
namespace {

uint64_t read_clock_ns(clockid_t id) noexcept {
  timespec now{};
  clock_gettime(id, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

class SystemClock final : public Clock {
 public:
  [[nodiscard]] uint64_t now_ns() const noexcept override { return read_clock_ns(CLOCK_MONOTONIC); }
  [[nodiscard]] uint64_t wall_ns() const noexcept override { return read_clock_ns(CLOCK_REALTIME); }
  [[nodiscard]] uint64_t boot_ns() const noexcept override { return read_clock_ns(CLOCK_BOOTTIME); }
  [[nodiscard]] bool runs_by_itself() const noexcept override { return true; }
};

}  // namespace

uint64_t thread_cpu_ns() noexcept {
  return read_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

const Clock& system_clock() noexcept {
  static const SystemClock clock;
  return clock;
}

}  // namespace refract
