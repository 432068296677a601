// SPDX-License-Identifier: Apache-2.0
// The last events of each thread, always on: REFRACT_TRACE("put slot {} stamp {}", slot, stamp).
//
// An event is a timestamp, the address of the format and up to three integers; recording one costs a few
// nanoseconds and never blocks or allocates. Formatting happens only on request: dump_trace() prints the
// events of all threads, newest last. A failed REFRACT_CHECK does that by itself once a first event has been
// recorded.
//
// Threads: record from any thread (each has its own ring; beyond kTraceThreadsMax threads at once, events of
// the further ones are dropped). Dump from any thread at any time, signal handlers too; an event that is
// being overwritten during the dump may show numbers of its successor.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace refract {

inline constexpr size_t kTraceThreadsMax = 64;
inline constexpr size_t kTraceEvents = 1024;  // For each thread.

// A format with one {} for each argument, checked when it is compiled. The text must be a literal.
template <size_t kArguments>
class TraceFormat {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): the literal in REFRACT_TRACE becomes one silently.
  consteval TraceFormat(const char* text) : text_(text) {
    size_t holes = 0;
    for (const char* at = text; *at != '\0'; ++at) {
      if (at[0] == '{' && at[1] == '}') ++holes;
    }
    if (holes != kArguments) format_and_arguments_differ();
  }
  [[nodiscard]] constexpr const char* text() const noexcept { return text_; }

 private:
  static void format_and_arguments_differ();  // Never defined: naming it stops the compilation.
  const char* text_;
};

class TraceRing {
 public:
  void record(const char* format, uint64_t first, uint64_t second, uint64_t third) noexcept {
    const uint64_t at = next_.load(std::memory_order_relaxed);
    Event& event = events_[at % kTraceEvents];
    event.ticks.store(__builtin_ia32_rdtsc(), std::memory_order_relaxed);
    event.format.store(format, std::memory_order_relaxed);
    event.values[0].store(first, std::memory_order_relaxed);
    event.values[1].store(second, std::memory_order_relaxed);
    event.values[2].store(third, std::memory_order_relaxed);
    // A dump by another thread sees whole events up to here.
    next_.store(at + 1, std::memory_order_release);
  }

 private:
  friend class TraceDump;

  // Atomics, since another thread may dump; relaxed ones cost what plain stores cost.
  struct Event {
    std::atomic<uint64_t> ticks;
    std::atomic<const char*> format;
    std::array<std::atomic<uint64_t>, 3> values;
  };

  std::atomic<uint64_t> next_;  // Events ever recorded.
  std::array<Event, kTraceEvents> events_;
};

namespace detail {
// Null until the thread's first event, and after its end.
extern constinit thread_local TraceRing* t_trace_ring;
// Takes a ring for this thread; null when all are taken.
TraceRing* claim_trace_ring() noexcept;
}  // namespace detail

template <typename... Values>
inline void trace(TraceFormat<sizeof...(Values)> format, Values... values) noexcept {
  static_assert(sizeof...(Values) <= 3, "an event holds three integers");
  TraceRing* ring = detail::t_trace_ring;
  if (__builtin_expect(ring == nullptr, 0)) {
    ring = detail::claim_trace_ring();
    if (ring == nullptr) return;
  }
  const std::array<uint64_t, 3> three = {static_cast<uint64_t>(values)...};
  ring->record(format.text(), three[0], three[1], three[2]);
}

// Writes the newest `events_max` events of all threads to `fd`, merged by time, newest last, one line each:
// "-1234567 ns thread 2: put slot 7 stamp 9", where the number is the age when the dump began.
// Uses no heap and takes no lock. Errors of write(2) end the dump.
void dump_trace(int fd, size_t events_max = SIZE_MAX) noexcept;

// The same lines as a text, below one that says when the dump began, by system_clock() in nanoseconds. Not
// for signal handlers.
[[nodiscard]] std::string trace_text(size_t events_max = SIZE_MAX);

}  // namespace refract

#define REFRACT_TRACE(...) ::refract::trace(__VA_ARGS__)
