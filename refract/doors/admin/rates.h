// SPDX-License-Identifier: Apache-2.0
// How much is done in a second, as Redis tells it: over the last one and a half.
//
// Threads: any.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "refract/base/units.h"

namespace refract::doors::redis {

class Rates {
 public:
  // Since the start.
  struct Sums {
    uint64_t commands = 0;
    uint64_t bytes_in = 0;
    uint64_t bytes_out = 0;
  };

  // Whether note() is due: threads ask behind turns in which they did something, and no timer is needed.
  [[nodiscard]] bool is_due(uint64_t now_ns) const noexcept {
    return now_ns >= due_ns_.load(std::memory_order_relaxed);
  }
  void note(uint64_t now_ns, const Sums& sums);
  // What a second has, if these are the sums now.
  [[nodiscard]] Sums of_a_second(uint64_t now_ns, const Sums& sums);
  // The sums begin at 0 again.
  void reset();

 private:
  static constexpr uint64_t kBetween_ns = 100 * kMillisecond_ns;
  static constexpr size_t kMoments = 16;

  struct Moment {
    uint64_t at_ns = 0;  // 0: there is none yet.
    Sums sums;
  };

  std::atomic<uint64_t> due_ns_ = 0;
  std::mutex mutex_;
  // Below, guarded by it:
  std::array<Moment, kMoments> moments_{};  // A ring.
  size_t next_ = 0;
};

}  // namespace refract::doors::redis
