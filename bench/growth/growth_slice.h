// SPDX-License-Identifier: Apache-2.0
// One side's turn: operations on entries drawn at random, for a slice of time.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string_view>

#include "bench/measure/measure.h"

#include "refract/base/report.h"

namespace refract::bench {

struct Slice {
  const Timer& timer;
  Samples& samples;
  uint64_t entries = 0;
  uint64_t seed = 0;
  double seconds = 0;

  [[nodiscard]] uint64_t end_ns() const { return now_ns() + static_cast<uint64_t>(seconds * 1e9); }
};

// The median of single operations, timed one by one. `prepare(index)` and `is_right(index)` are not timed,
// `ask()` is.
template <typename Prepare, typename Ask, typename IsRight>
[[nodiscard]] Reported<double> median_ns_of(const Slice& slice, std::string_view what, Prepare&& prepare,
                                            Ask&& ask, IsRight&& is_right) {
  slice.samples.clear();
  Draw draw(slice.seed, slice.entries);
  // Few operations are not worth a median, however long they take.
  constexpr uint64_t kLeast = 5;
  const uint64_t end_ns = slice.end_ns();
  for (uint64_t i = 0; i < kLeast || now_ns() < end_ns; ++i) {
    const uint64_t index = draw.next();
    prepare(index);
    const uint64_t before = ticks_before();
    ask();
    slice.samples.record(ticks_after() - before);
    if (!is_right(index)) {
      return report(Code::kCorrupt, fmt::format("{}: failed, or brought another entry's bytes", what));
    }
  }
  return slice.timer.ns(slice.samples.quantile_ticks(0.5));
}

// Operations a second, not timed one by one. `ask(draw)` does `step` of them and says whether all was right.
template <typename Ask>
[[nodiscard]] Reported<double> rate_of(const Slice& slice, std::string_view what, uint64_t step, Ask&& ask) {
  constexpr uint64_t kBetweenClocks = 64;
  Draw draw(slice.seed, slice.entries);
  uint64_t count = 0;
  const uint64_t start_ns = now_ns();
  const uint64_t end_ns = slice.end_ns();
  uint64_t last_ns = start_ns;
  bool is_right = true;
  for (; last_ns < end_ns && is_right; last_ns = now_ns()) {
    for (uint64_t i = 0; i < kBetweenClocks; ++i) is_right = ask(draw) && is_right;
    count += kBetweenClocks * step;
  }
  if (!is_right) {
    return report(Code::kCorrupt, fmt::format("{}: failed, or brought another entry's bytes", what));
  }
  return static_cast<double>(count) * 1e9 / static_cast<double>(last_ns - start_ns);
}

}  // namespace refract::bench
