// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/measure.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace refract::bench {
namespace {

// Read once, before anything is pinned.
const std::vector<int>& cores() {
  static const std::vector<int> allowed = [] {
    std::vector<int> found;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
      for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &set)) found.push_back(cpu);
      }
    }
    if (found.empty()) found.push_back(0);
    return found;
  }();
  return allowed;
}

}  // namespace

bool pin_to_core(size_t index) {
  if (index >= cores().size()) return false;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cores()[index], &set);
  return ::sched_setaffinity(0, sizeof(set), &set) == 0;
}

void unpin() {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cores()) CPU_SET(cpu, &set);
  ::sched_setaffinity(0, sizeof(set), &set);
}

size_t core_count() {
  return cores().size();
}

int core_number(size_t index) {
  return cores()[index];
}

uint64_t now_ns() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

void sleep_ns(uint64_t duration_ns) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(duration_ns));
}

Timer Timer::calibrate() {
  Timer timer;
  const uint64_t start_ns = now_ns();
  const uint64_t start = ticks_before();
  while (now_ns() - start_ns < 50'000'000) _mm_pause();
  const uint64_t end = ticks_before();
  timer.ns_per_tick = static_cast<double>(now_ns() - start_ns) / static_cast<double>(end - start);
  Samples pairs(100'001);
  for (int i = 0; i < 100'001; ++i) {
    const uint64_t before = ticks_before();
    pairs.record(ticks_after() - before);
  }
  timer.overhead_ticks = pairs.quantile_ticks(0.5);
  return timer;
}

uint64_t Samples::quantile_ticks(double share) noexcept {
  if (count_ == 0) return 0;
  const auto at = static_cast<size_t>(share * static_cast<double>(count_ - 1));
  const auto begin = ticks_.begin();
  std::nth_element(begin, begin + static_cast<ptrdiff_t>(at), begin + static_cast<ptrdiff_t>(count_));
  return ticks_[at];
}

std::vector<uint64_t> times(uint64_t first, uint64_t last, uint64_t factor) {
  std::vector<uint64_t> values;
  for (uint64_t value = first; value <= last; value *= factor) values.push_back(value);
  return values;
}

Spread spread_of(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::ranges::sort(samples);
  const size_t middle = samples.size() / 2;
  const double median =
      samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
  return {.median = median, .min = samples.front(), .max = samples.back()};
}

}  // namespace refract::bench
