// SPDX-License-Identifier: Apache-2.0
// Calls that wait, or copy much, without the lock of the interpreter; and waits that signals end.
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <utility>

namespace refract::python {

// What is copied under the lock at most.
inline constexpr uint64_t kCopiedUnderLock = 64 * 1024;
inline constexpr uint64_t kForever_ms = std::numeric_limits<uint64_t>::max();

// Back under the lock. Where the interpreter has ended meanwhile, the thread stops here for good:
// CPython 3.11 would unwind it, and destructors of what Python has would run without the lock.
void take_gil(PyThreadState* state);
// Raises what a signal's handler raised.
void check_signals();
// Whether it is the one in which Python runs handlers of signals, or may be.
[[nodiscard]] bool is_main_thread() noexcept;

// Runs evenly, from some moment on.
[[nodiscard]] inline uint64_t now_ns() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// `call` touches nothing of Python.
template <typename Call>
auto without_gil(Call&& call) {
  PyThreadState* const state = PyEval_SaveThread();
  auto result = std::forward<Call>(call)();
  take_gil(state);
  return result;
}

// `wait(timeout_ms) -> bool` waits at most so long without the lock, and says whether the wait is over. In
// the main thread it is called with `slice_ms` again and again, so that a handler of a signal runs meanwhile.
template <typename Wait>
void wait_in_slices(uint64_t timeout_ms, uint64_t slice_ms, Wait&& wait) {
  if (!is_main_thread()) {
    (void)wait(timeout_ms);
    return;
  }
  const uint64_t begun_ns = now_ns();
  for (uint64_t left_ms = timeout_ms;;) {
    const bool is_over = wait(std::min(left_ms, slice_ms));
    if (is_over) return;
    check_signals();
    if (timeout_ms == kForever_ms) continue;
    const uint64_t gone_ms = (now_ns() - begun_ns) / 1'000'000;
    if (gone_ms >= timeout_ms) return;
    left_ms = timeout_ms - gone_ms;
  }
}

// A moment: long enough to cost an idle program nothing, short enough for a person at a terminal.
inline constexpr uint64_t kSlice_ms = 100;
// Of waits for room, which are taken in turns: a new wait is the last one.
inline constexpr uint64_t kRoomSlice_ms = 1'000;

}  // namespace refract::python
