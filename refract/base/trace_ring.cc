// SPDX-License-Identifier: Apache-2.0
#include "refract/base/trace_ring.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "refract/base/check.h"
#include "refract/base/clock.h"

namespace refract {
namespace detail {
constinit thread_local TraceRing* t_trace_ring = nullptr;
}  // namespace detail

namespace {

// Enough to see what led to a failed check, and not so much that it drowns the message.
constexpr size_t kEventsAtFailedCheck = 200;

// A ring, once made, stays: the last events of an ended thread are worth reading, until another thread takes
// it over.
struct ThreadRing {
  std::atomic<TraceRing*> ring = nullptr;
  std::atomic<bool> taken = false;
};
constinit std::array<ThreadRing, kTraceThreadsMax> g_places;

// One moment on both clocks, from which the dump computes how long a tick is.
constinit std::atomic<uint64_t> g_anchor_ticks = 0;
constinit std::atomic<uint64_t> g_anchor_ns = 0;
constinit std::atomic<bool> g_ready = false;

void dump_after_failed_check() noexcept {
  dump_trace(STDERR_FILENO, kEventsAtFailedCheck);
}

// Gives the thread's place to others when the thread ends.
struct PlaceHolder {
  ThreadRing* place = nullptr;
  bool asked = false;
  PlaceHolder() = default;
  PlaceHolder(const PlaceHolder&) = delete;
  PlaceHolder& operator=(const PlaceHolder&) = delete;
  ~PlaceHolder() {
    detail::t_trace_ring = nullptr;
    asked = true;
    if (place != nullptr) place->taken.store(false, std::memory_order_release);
  }
};
thread_local PlaceHolder t_holder;

void write_all(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

// A line built without the heap; what does not fit is cut.
class Line {
 public:
  void add(std::string_view text) noexcept {
    const size_t room = std::min(text.size(), bytes_.size() - 1 - size_);
    std::ranges::copy(text.substr(0, room), bytes_.data() + size_);
    size_ += room;
  }
  void add(uint64_t number) noexcept {
    std::array<char, 20> digits{};
    size_t at = digits.size();
    do {
      digits[--at] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
    add(std::string_view(digits.data() + at, digits.size() - at));
  }
  // The last byte is kept for it.
  void end() noexcept { bytes_[size_++] = '\n'; }
  [[nodiscard]] std::string_view text() const noexcept { return {bytes_.data(), size_}; }

 private:
  std::array<char, 512> bytes_;
  size_t size_ = 0;
};

}  // namespace

TraceRing* detail::claim_trace_ring() noexcept {
  if (t_holder.asked) return nullptr;
  t_holder.asked = true;
  if (!g_ready.exchange(true)) {
    g_anchor_ticks.store(__builtin_ia32_rdtsc());
    g_anchor_ns.store(system_clock().now_ns());
    set_check_hook(dump_after_failed_check);
  }
  for (ThreadRing& place : g_places) {
    if (place.taken.exchange(true, std::memory_order_acquire)) continue;
    if (place.ring.load(std::memory_order_relaxed) == nullptr) {
      place.ring.store(new TraceRing(), std::memory_order_release);
    }
    t_holder.place = &place;
    t_trace_ring = place.ring.load(std::memory_order_relaxed);
    break;
  }
  return t_trace_ring;
}

// Merges the rings by time; the state of one dump.
class TraceDump {
 public:
  TraceDump() noexcept : now_ticks_(__builtin_ia32_rdtsc()), now_ns_(system_clock().now_ns()) {
    const uint64_t ticks = now_ticks_ - g_anchor_ticks.load();
    const uint64_t ns = now_ns_ - g_anchor_ns.load();
    if (ticks > 0 && ns > 0) tick_ns_ = static_cast<double>(ns) / static_cast<double>(ticks);
    for (size_t row = 0; row < kTraceThreadsMax; ++row) {
      Cursor& cursor = cursors_[row];
      cursor.ring = g_places[row].ring.load(std::memory_order_acquire);
      if (cursor.ring == nullptr) continue;
      cursor.end = cursor.ring->next_.load(std::memory_order_acquire);
      cursor.at = cursor.end > kTraceEvents ? cursor.end - kTraceEvents : 0;
      left_ += cursor.end - cursor.at;
    }
  }

  // `take(line)` is given the newest `events_max` lines, the newest last.
  template <typename Take>
  void visit_newest(size_t events_max, Take&& take) {
    for (; left_ > 0; --left_) {
      const size_t row = oldest();
      if (left_ <= events_max) take(line_of(row).text());
      ++cursors_[row].at;
    }
  }

  [[nodiscard]] uint64_t now_ns() const noexcept { return now_ns_; }

 private:
  struct Cursor {
    const TraceRing* ring = nullptr;
    uint64_t at = 0;
    uint64_t end = 0;
  };

  [[nodiscard]] const TraceRing::Event& event(size_t row) const noexcept {
    return cursors_[row].ring->events_[cursors_[row].at % kTraceEvents];
  }

  // REQUIRES: some events are left.
  [[nodiscard]] size_t oldest() const noexcept {
    size_t found = kTraceThreadsMax;
    uint64_t found_ticks = UINT64_MAX;
    for (size_t row = 0; row < kTraceThreadsMax; ++row) {
      if (cursors_[row].at == cursors_[row].end) continue;
      const uint64_t ticks = event(row).ticks.load(std::memory_order_relaxed);
      if (found == kTraceThreadsMax || ticks < found_ticks) {
        found = row;
        found_ticks = ticks;
      }
    }
    return found;
  }

  [[nodiscard]] Line line_of(size_t row) const noexcept {
    const TraceRing::Event& it = event(row);
    const uint64_t ticks = it.ticks.load(std::memory_order_relaxed);
    // An event recorded since the dump began, over an older one, has no age.
    const uint64_t age_ticks = now_ticks_ > ticks ? now_ticks_ - ticks : 0;
    Line line;
    line.add("-");
    line.add(static_cast<uint64_t>(static_cast<double>(age_ticks) * tick_ns_));
    line.add(" ns thread ");
    line.add(row);
    line.add(": ");
    std::string_view format = it.format.load(std::memory_order_relaxed);
    for (const auto& value : it.values) {
      const size_t hole = format.find("{}");
      if (hole == std::string_view::npos) break;
      line.add(format.substr(0, hole));
      line.add(value.load(std::memory_order_relaxed));
      format.remove_prefix(hole + 2);
    }
    line.add(format);
    line.end();
    return line;
  }

  uint64_t now_ticks_;
  uint64_t now_ns_;
  double tick_ns_ = 1.0;
  uint64_t left_ = 0;
  std::array<Cursor, kTraceThreadsMax> cursors_;
};

void dump_trace(int fd, size_t events_max) noexcept {
  TraceDump().visit_newest(events_max, [fd](std::string_view line) { write_all(fd, line); });
}

std::string trace_text(size_t events_max) {
  TraceDump dump;
  std::string text = std::to_string(dump.now_ns());
  text.push_back('\n');
  dump.visit_newest(events_max, [&](std::string_view line) { text += line; });
  return text;
}

}  // namespace refract
