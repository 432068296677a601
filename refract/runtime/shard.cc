// SPDX-License-Identifier: Apache-2.0
#include "refract/runtime/shard.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include "refract/base/check.h"
#include "refract/base/trace_ring.h"

namespace refract::runtime {
namespace {

// A look at the clock costs 20 to 30 ns, as much as some idle polls, and whatever arrives meanwhile waits for
// it: with eight polls between two looks it took a sixth of the time of a server that waits for its next
// call. A poll of TCP connections is a call of the kernel for each: 64 of them take a third of a millisecond,
// and a spin ends at a look only. So the number of polls follows from the time that they take.
constexpr unsigned kPollsBetweenLooks = 64;
constexpr uint64_t kLooksAreClose_ns = 8'000;
constexpr uint64_t kLooksAreFar_ns = 20'000;

unsigned polls_for(uint64_t elapsed_ns, unsigned polls) noexcept {
  if (elapsed_ns > kLooksAreFar_ns) return std::max(polls / 2, 1U);
  if (elapsed_ns < kLooksAreClose_ns) return std::min(polls * 2, kPollsBetweenLooks);
  return polls;
}

// The longest sleep where the clock is moved by hand, or where there is nothing to wake us.
constexpr uint64_t kNap_ns = kMillisecond_ns;

// Of the machine, not of our affinity: a program that pins a shard to a core of its own wants it to spin
// there. Two that are pinned to one core cost each other a bounded spin.
bool has_one_cpu_only() noexcept {
  return sysconf(_SC_NPROCESSORS_ONLN) == 1;
}

timespec to_timespec(uint64_t ns) noexcept {
  return {.tv_sec = static_cast<time_t>(ns / kSecond_ns), .tv_nsec = static_cast<long>(ns % kSecond_ns)};
}

// Of run_ready(), while there is work: the loop has other work, too.
constexpr int kPollsATurn = 16;

bool watch_with(int epoll_fd, int fd) noexcept {
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLRDHUP | static_cast<uint32_t>(EPOLLET);
  event.data.fd = fd;
  return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

// epoll_pwait2 counts in nanoseconds; kernels and sandboxes without it get whole milliseconds, rounded up.
// False: a signal ended the wait.
bool wait_for_events(int epoll_fd, uint64_t timeout_ns) noexcept {
  epoll_event event;
  const timespec timeout = to_timespec(timeout_ns);
  const bool forever = timeout_ns == kForever_ns;
  if (epoll_pwait2(epoll_fd, &event, 1, forever ? nullptr : &timeout, nullptr) >= 0) return true;
  if (errno == EINTR) return false;
  const uint64_t ms =
      std::min<uint64_t>((timeout_ns - 1) / kMillisecond_ns + 1, std::numeric_limits<int>::max());
  return epoll_wait(epoll_fd, &event, 1, forever ? -1 : static_cast<int>(ms)) >= 0 || errno != EINTR;
}

// Reading what the events are about is the pollers' matter.
void forget_events(int epoll_fd) noexcept {
  std::array<epoll_event, 16> events;
  const int full = static_cast<int>(events.size());
  while (epoll_wait(epoll_fd, events.data(), full, 0) == full) {
  }
}

}  // namespace

// A spawned task's place in its shard's list.
struct Shard::Spawned {
  Shard* shard = nullptr;
  Spawned* previous = nullptr;
  Spawned* next = nullptr;
  std::coroutine_handle<> frame;
};

// The coroutine round a spawned task. It frees itself at its end, and is dropped by the shard otherwise;
// either way the promise's destructor takes it out of the list.
class Shard::Detached {
 public:
  class promise_type : public Spawned {
   public:
    promise_type() = default;
    promise_type(const promise_type&) = delete;
    promise_type& operator=(const promise_type&) = delete;
    ~promise_type() {
      if (next != nullptr) next->previous = previous;
      if (previous != nullptr) {
        previous->next = next;
      } else {
        shard->spawned_ = next;
      }
      shard->gate_.leave();
    }
    static void* operator new(size_t bytes) noexcept(false) { return FramePool::allocate(bytes); }
    static void operator delete(void* frame_memory, size_t bytes) noexcept {
      FramePool::release(frame_memory, bytes);
    }
    [[nodiscard]] Detached get_return_object() noexcept {
      frame = std::coroutine_handle<promise_type>::from_promise(*this);
      return Detached(this);
    }
    [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
    [[nodiscard]] std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    [[noreturn]] void unhandled_exception() const noexcept {
      check_failed("no exception leaves a task", __FILE__, __LINE__);
    }
  };

  [[nodiscard]] Spawned& spawned() const noexcept { return *spawned_; }

 private:
  explicit Detached(Spawned* spawned) noexcept : spawned_(spawned) {}
  Spawned* spawned_;
};

Shard::Shard(const Clock& clock, const ShardOptions& options)
    : clock_(&clock),
      options_(options),
      now_ns_(clock.now_ns()),
      // Virtual time is cheap to read, and tests step it poll by poll.
      polls_between_looks_(clock.runs_by_itself() ? kPollsBetweenLooks : 1),
      ops_(options.ops_max) {
  if (has_one_cpu_only()) options_.spin_ns = 0;
}

Shard::~Shard() {
  drop_tasks();
  REFRACT_CHECK(std::ranges::all_of(pollers_, [](const Poller* poller) { return poller == nullptr; }));
  REFRACT_CHECK(timers_.empty());
  if (epoll_fd_ >= 0) close(epoll_fd_);
  if (alarm_fd_ >= 0) close(alarm_fd_);
  if (wake_fd_ >= 0) close(wake_fd_);
}

void Shard::add(Poller& poller) noexcept {
  if (is_asleep_elsewhere_) end_sleep();
  pollers_.push_back(&poller);
}

void Shard::remove(Poller& poller) noexcept {
  if (is_asleep_elsewhere_) end_sleep();
  const auto found = std::ranges::find(pollers_, &poller);
  REFRACT_CHECK(found != pollers_.end());
  *found = nullptr;
  pollers_removed_ = true;
  if (!polling_) forget_removed_pollers();
}

void Shard::forget_removed_pollers() noexcept {
  std::erase(pollers_, nullptr);
  pollers_removed_ = false;
}

size_t Shard::poll_once() noexcept {
  REFRACT_CHECK(!polling_);
  polling_ = true;
  size_t did = 0;
  // By index, and asking for the size each time, since coroutines that run in here add pollers.
  for (size_t row = 0; row < pollers_.size(); ++row) {
    if (pollers_[row] != nullptr) did += pollers_[row]->poll();
  }
  if (--polls_until_look_ == 0) did += look_at_time();
  polling_ = false;
  if (pollers_removed_) forget_removed_pollers();
  return did;
}

// At the next poll's end.
void Shard::look_soon() noexcept {
  polls_until_look_ = 1;
  look_is_early_ = true;
}

size_t Shard::look_at_time() noexcept {
  refresh_now();
  // Of an early look it is not known how many polls were before it. Virtual time is not theirs.
  if (!look_is_early_ && clock_->runs_by_itself()) {
    polls_between_looks_ = polls_for(now_ns_ - looked_at_ns_, polls_between_looks_);
  }
  looked_at_ns_ = now_ns_;
  look_is_early_ = false;
  polls_until_look_ = polls_between_looks_;
  return fire_timers() + ops_.expire(now_ns_);
}

void Shard::run() {
  run_until([this] { return stop_wanted_.load(std::memory_order_acquire); });
  stop_wanted_.store(false, std::memory_order_relaxed);
}

void Shard::stop() noexcept {
  stop_wanted_.store(true);
  wake();
}

void Shard::spawn(Task<> task) noexcept {
  if (!gate_.enter()) return;
  Spawned& spawned = drive(std::move(task)).spawned();
  spawned.shard = this;
  spawned.next = spawned_;
  if (spawned_ != nullptr) spawned_->previous = &spawned;
  spawned_ = &spawned;
  if (!polling_) refresh_now();
  spawned.frame.resume();
}

void Shard::drop_tasks() noexcept {
  gate_.close();
  while (spawned_ != nullptr) spawned_->frame.destroy();
}

Shard::Detached Shard::drive(Task<> task) {
  co_await std::move(task);
}

Shard::Sleep Shard::sleep_for(uint64_t ns) noexcept {
  refresh_now();
  return {this, ns > kForever_ns - now_ns_ ? kForever_ns : now_ns_ + ns};
}

Shard::Sleep Shard::sleep_until(uint64_t moment_ns) noexcept {
  return {this, moment_ns};
}

uint64_t Shard::add_timer(uint64_t moment_ns, std::coroutine_handle<> waiter) noexcept {
  // A moment in the past would overtake timers that are due and waited longer.
  const uint64_t moment = std::max(moment_ns, now_ns_);
  if (moment == now_ns_) look_soon();
  timers_.push_back({moment, next_sequence_, waiter});
  std::push_heap(timers_.begin(), timers_.end());
  return next_sequence_++;
}

void Shard::cancel_timer(uint64_t sequence) noexcept {
  if (sequence == 0) return;
  const auto found = std::ranges::find(timers_, sequence, &Timer::sequence);
  if (found == timers_.end()) return;
  *found = timers_.back();
  timers_.pop_back();
  std::make_heap(timers_.begin(), timers_.end());
}

size_t Shard::fire_timers() noexcept {
  size_t fired = 0;
  // Timers set by what runs now wait for the next look, or a task that sleeps 0 ns would keep the shard.
  const uint64_t end = next_sequence_;
  while (!timers_.empty() && timers_.front().moment_ns <= now_ns_ && timers_.front().sequence < end) {
    std::pop_heap(timers_.begin(), timers_.end());
    const std::coroutine_handle<> waiter = timers_.back().waiter;
    timers_.pop_back();
    waiter.resume();
    ++fired;
  }
  return fired;
}

uint64_t Shard::next_timer_ns() const noexcept {
  const uint64_t timer_ns = timers_.empty() ? kForever_ns : timers_.front().moment_ns;
  return std::min(timer_ns, ops_.next_deadline_ns());
}

// True: poll again. Stages: pause until spin_ns have passed, yield, sleep.
bool Shard::wait(uint64_t deadline_ns) noexcept {
  const uint64_t until_ns = std::min(deadline_ns, next_timer_ns());
  if (options_.idler != nullptr) {
    look_soon();
    return options_.idler->idle(until_ns);
  }
  // Something is due already, or a task only gave way to others.
  if (polls_until_look_ == 1 && until_ns <= now_ns_) return true;
  ++idle_polls_;
  if (options_.spin_ns > 0 && yields_ == 0) {
    // Counted from the first look at the clock after the work, since the last one before it may be old.
    if (idle_polls_ <= polls_between_looks_) idle_since_ns_ = now_ns_;
    if (idle_polls_ <= polls_between_looks_ || now_ns_ - idle_since_ns_ < options_.spin_ns) {
      __builtin_ia32_pause();
      return true;
    }
  }
  look_soon();
  if (yields_ < options_.yield_count || now_ns_ < awake_until_ns_) {
    yields_ = std::min(yields_ + 1, options_.yield_count);
    sched_yield();
    return true;
  }
  if (may_wait_ == nullptr) {
    try_to_sleep(until_ns);
  } else {
    if (!may_sleep()) return false;
    try_to_sleep(std::min(until_ns, ask_due_ns_));
  }
  idle_polls_ = 0;
  yields_ = 0;
  return true;
}

bool Shard::may_sleep() noexcept {
  if (now_ns_ < ask_due_ns_) return true;
  const uint64_t ns = may_wait_();
  refresh_now();
  ask_due_ns_ = ns > kForever_ns - now_ns_ ? kForever_ns : now_ns_ + ns;
  return ns != 0;
}

void Shard::try_to_sleep(uint64_t until_ns) noexcept {
  const bool may_be_woken = open_epoll();
  polling_ = true;
  if (begin_sleep()) sleep_in_kernel(until_ns, may_be_woken);
  end_sleep();
  polling_ = false;
}

// False: there is work. In both cases end_sleep() follows.
bool Shard::begin_sleep() noexcept {
  // A caller of wake() after the exchange below sees this store, and writes to the descriptor.
  asleep_.store(true);
  bool nothing_to_do = true;
  pollers_asked_ = 0;
  while (nothing_to_do && pollers_asked_ < pollers_.size()) {
    Poller* const poller = pollers_[pollers_asked_++];
    if (poller != nullptr) nothing_to_do = poller->prepare_sleep();
  }
  return nothing_to_do && !wake_wanted_.exchange(false);
}

void Shard::end_sleep() noexcept {
  for (size_t row = 0; row < pollers_asked_; ++row) {
    if (pollers_[row] != nullptr) pollers_[row]->woke();
  }
  pollers_asked_ = 0;
  is_asleep_elsewhere_ = false;
  asleep_.store(false, std::memory_order_relaxed);
}

void Shard::sleep_in_kernel(uint64_t until_ns, bool may_be_woken) noexcept {
  const uint64_t now_ns = refresh_now();
  if (until_ns <= now_ns) return;
  ++sleep_count_;
  uint64_t timeout_ns = kForever_ns;
  if (until_ns == kForever_ns) {
    REFRACT_TRACE("shard sleeps, {} operations in flight, no timer", ops_.count());
  } else {
    timeout_ns = until_ns - now_ns;
    REFRACT_TRACE("shard sleeps, {} operations in flight, at most ns {}", ops_.count(), timeout_ns);
  }
  // A clock that is moved by hand says nothing about how long the kernel should wait.
  if (timeout_ns != kForever_ns && !clock_->runs_by_itself()) timeout_ns = kNap_ns;
  if (may_be_woken) {
    if (!wait_for_events(epoll_fd_, timeout_ns)) ask_due_ns_ = 0;
  } else {
    const timespec nap = to_timespec(std::min(timeout_ns, kNap_ns));
    if (nanosleep(&nap, nullptr) != 0) ask_due_ns_ = 0;
  }
}

int Shard::descriptor() noexcept {
  if (!open_epoll()) return -1;
  if (alarm_fd_ >= 0) return epoll_fd_;
  const int alarm_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (alarm_fd < 0) return -1;
  if (!watch_with(epoll_fd_, alarm_fd)) {
    close(alarm_fd);
    return -1;
  }
  alarm_fd_ = alarm_fd;
  return epoll_fd_;
}

bool Shard::run_ready() noexcept {
  REFRACT_CHECK(!polling_ && alarm_fd_ >= 0);
  if (is_asleep_elsewhere_) end_sleep();
  // First of all: what comes after this makes the descriptor readable again, what came before is polled.
  forget_events(epoll_fd_);
  for (int turn = 0; turn < kPollsATurn; ++turn) {
    look_soon();
    if (poll_once() > 0) continue;
    polling_ = true;
    is_asleep_elsewhere_ = begin_sleep() && set_alarm();
    polling_ = false;
    if (!is_asleep_elsewhere_) end_sleep();
    return !is_asleep_elsewhere_;
  }
  return true;
}

// Each setting is a call of the kernel, and most deadlines are never reached: an alarm that is early enough
// stays, and rings for nothing. False: something is due.
bool Shard::set_alarm() noexcept {
  const uint64_t until_ns = next_timer_ns();
  if (until_ns == kForever_ns) return true;
  const uint64_t now_ns = refresh_now();
  if (until_ns <= now_ns) return false;
  if (now_ns < alarm_ns_ && alarm_ns_ <= until_ns) return true;
  const uint64_t left_ns = clock_->runs_by_itself() ? until_ns - now_ns : kNap_ns;
  const itimerspec alarm = {.it_interval = {}, .it_value = to_timespec(left_ns)};
  // It fails for values that are none, which this one is not.
  static_cast<void>(timerfd_settime(alarm_fd_, 0, &alarm, nullptr));
  alarm_ns_ = clock_->runs_by_itself() ? until_ns : 0;
  return true;
}

// The process may be out of descriptors; then the shard naps, and this is tried again before each nap.
bool Shard::open_epoll() noexcept {
  if (wake_fd_.load(std::memory_order_relaxed) >= 0) return true;
  if (epoll_fd_ < 0) epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd_ < 0) return false;
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) return false;
  if (!watch_with(epoll_fd_, wake_fd)) {
    close(wake_fd);
    return false;
  }
  wake_fd_.store(wake_fd);
  return true;
}

void Shard::wake() noexcept {
  wake_wanted_.store(true);
  if (!asleep_.load()) return;
  const int fd = wake_fd_.load();
  if (fd < 0) return;
  // Each write is a new edge, so the counter need not be read; it cannot overflow in practice.
  const int saved_errno = errno;
  const uint64_t one = 1;
  static_cast<void>(!write(fd, &one, sizeof(one)));
  errno = saved_errno;
}

bool Shard::watch(int fd) noexcept {
  return open_epoll() && watch_with(epoll_fd_, fd);
}

void Shard::unwatch(int fd) noexcept {
  if (epoll_fd_ >= 0) epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
}

}  // namespace refract::runtime
