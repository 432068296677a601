// SPDX-License-Identifier: Apache-2.0
// What every measurement here starts from: a timer whose own cost is known, cores to sit on, and how far
// samples spread.
#pragma once

#include <x86intrin.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace refract::bench {

// Binds the calling thread to a core, counted among those that this process was allowed at its start. False
// where there are not so many.
bool pin_to_core(size_t index);
// All of these cores again.
void unpin();
[[nodiscard]] size_t core_count();
// The system's number of that core, as the knob server.cpu wants it. REQUIRES: index < core_count().
[[nodiscard]] int core_number(size_t index);

[[nodiscard]] uint64_t now_ns();
void sleep_ns(uint64_t duration_ns);

// The time stamp counter round a single operation. The fences keep the operation's loads between the two
// reads, so an operation is charged until its last byte has arrived.
[[nodiscard]] inline uint64_t ticks_before() noexcept {
  _mm_lfence();
  const uint64_t ticks = __rdtsc();
  _mm_lfence();
  return ticks;
}
[[nodiscard]] inline uint64_t ticks_after() noexcept {
  unsigned core;
  const uint64_t ticks = __rdtscp(&core);
  _mm_lfence();
  return ticks;
}

// How long a tick lasts, and what reading the counter twice costs.
struct Timer {
  double ns_per_tick = 0;
  uint64_t overhead_ticks = 0;

  // Takes 50 ms.
  [[nodiscard]] static Timer calibrate();
  // The duration of an operation, the timer's own cost subtracted.
  [[nodiscard]] double ns(uint64_t ticks) const noexcept {
    return ticks <= overhead_ticks ? 0 : static_cast<double>(ticks - overhead_ticks) * ns_per_tick;
  }
};

// Single operations, timed one by one. Room is taken beforehand, so that recording is one store.
class Samples {
 public:
  explicit Samples(size_t room) : ticks_(room) {}
  void clear() noexcept { count_ = 0; }
  void record(uint64_t ticks) noexcept {
    if (count_ < ticks_.size())
      ticks_[count_++] = static_cast<uint32_t>(ticks < UINT32_MAX ? ticks : UINT32_MAX);
  }
  [[nodiscard]] size_t count() const noexcept { return count_; }
  [[nodiscard]] bool has_room() const noexcept { return count_ < ticks_.size(); }
  // 0 without samples. Reorders them.
  [[nodiscard]] uint64_t quantile_ticks(double share) noexcept;

 private:
  std::vector<uint32_t> ticks_;
  size_t count_ = 0;
};

struct Spread {
  double median = 0;
  double min = 0;
  double max = 0;
};
[[nodiscard]] Spread spread_of(std::vector<double> samples);

// `first`, so many times it, and so on up to `last`.
[[nodiscard]] std::vector<uint64_t> times(uint64_t first, uint64_t last, uint64_t factor);

// A number beside those that a measurement is about.
struct Detail {
  std::string name;
  double value = 0;
  std::string unit;
};

// Keeps the compiler from dropping what computed `value`.
template <typename Value>
void keep(const Value& value) noexcept {
  asm volatile("" : : "r,m"(value) : "memory");
}

// A cheap sequence of entries to ask for, uniform over `count`. Two sequences of one seed are the same.
class Draw {
 public:
  Draw(uint64_t seed, uint64_t count) noexcept : state_(seed * 2 + 1), count_(count) {}
  [[nodiscard]] uint64_t next() noexcept {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return ((state_ >> 32) * count_) >> 32;
  }

 private:
  uint64_t state_;
  uint64_t count_;
};

}  // namespace refract::bench
