// SPDX-License-Identifier: Apache-2.0
// A Shard is one thread's event loop: it polls its pollers, resumes the coroutines whose operations or timers
// are due, and waits when there is nothing to do. No other loop of Refract spins or waits, but for the few
// microseconds of Channel::await_message.
//
// Waiting is adaptive: it spins for spin_ns with pauses, yields, then sleeps in the kernel until a watched
// descriptor, a timer, a deadline or wake(). An idle shard without timers and operations uses no CPU. Where
// the machine has one CPU only, it does not spin.
//
// Threads: everything is for the shard's own thread, except stop() and wake(). A shard may be made by one
// thread and then run by another.
#pragma once

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "refract/base/api.h"
#include "refract/base/clock.h"
#include "refract/base/units.h"
#include "refract/runtime/gate.h"
#include "refract/runtime/op_table.h"
#include "refract/runtime/poller.h"
#include "refract/runtime/shard_options.h"
#include "refract/runtime/task.h"

namespace refract::runtime {

class REFRACT_API Shard {
 public:
  // `clock` must outlive the shard.
  explicit Shard(const Clock& clock, const ShardOptions& options = {});
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;
  // Drops the spawned tasks that have not ended. REQUIRES: no poller and no timer or operation of others is
  // left.
  ~Shard();

  // Polled in the order added. A poller is removed before it is destroyed.
  void add(Poller& poller) noexcept;
  void remove(Poller& poller) noexcept;

  // One look at everything; returns how much was done. Never waits.
  size_t poll_once() noexcept;
  // Whether the caller runs inside a poll, as what a poll resumes does.
  [[nodiscard]] bool is_polling() const noexcept { return polling_; }

  // Polls, and waits as described above, until done() is true (asked before and after each poll) or
  // `deadline_ns` (absolute) has passed. True: done. REQUIRES: not called from inside a poll, and so from no
  // task.
  template <typename Done>
  bool run_until(Done&& done, uint64_t deadline_ns = kForever_ns) {
    refresh_now();
    return run_from_now(done, deadline_ns);
  }
  // Until stop() has been called; one stop() ends one run().
  void run();
  // Any thread, and signal handlers.
  void stop() noexcept;
  // Ends the current or next sleep. Any thread, and signal handlers.
  void wake() noexcept;

  [[nodiscard]] OpTable& ops() noexcept { return ops_; }
  [[nodiscard]] const Clock& clock() const noexcept { return *clock_; }
  // The time of the last look at the clock: fresh within some polls while the shard runs, and when a task
  // starts.
  [[nodiscard]] uint64_t now_ns() const noexcept { return now_ns_; }
  // Looks at the clock: for callers that worked long, or use the shard from outside its loop.
  uint64_t refresh_now() noexcept { return now_ns_ = clock_->now_ns(); }
  // Whether looking at memory for a while is cheaper than giving way: not with one processor, and not in
  // virtual time.
  [[nodiscard]] bool spins() const noexcept { return options_.spin_ns > 0 && options_.idler == nullptr; }
  // Asked when a run is about to sleep, outside of every poll: for how many nanoseconds it may wait until
  // this is asked again, which is done after each signal, too. 0: the run ends there, as at its deadline.
  // Null: nothing is asked. block_on does not ask.
  using MayWait = uint64_t (*)();
  void ask_before_sleeping(MayWait ask) noexcept { may_wait_ = ask; }
  // What is waited for will be there in so long: a sleep and the wake-up from it would cost more than giving
  // way to others until then.
  void stay_awake_for(uint64_t ns) noexcept { awake_until_ns_ = refresh_now() + ns; }

  // Runs the task until it first suspends, and keeps it until it ends. Dropped unstarted if gate() is closed.
  void spawn(Task<> task) noexcept;
  // Drops the spawned tasks that have not ended, before what they use is destroyed. REQUIRES: not called from
  // a task.
  void drop_tasks() noexcept;
  // Counts the spawned tasks: close it and run until its count is 0 for a clean end.
  [[nodiscard]] Gate& gate() noexcept { return gate_; }

  class Sleep;

  // `co_await shard.sleep_for(ns)`: resumes after that time; for equal times in the order of the calls. With
  // 0 it lets everything else have a turn. Dropping the coroutine cancels the timer.
  [[nodiscard]] Sleep sleep_for(uint64_t ns) noexcept;
  [[nodiscard]] Sleep sleep_until(uint64_t moment_ns) noexcept;
  // The earliest timer or (lower bound of a) deadline; kForever_ns when there is none.
  [[nodiscard]] uint64_t next_timer_ns() const noexcept;

  // From now on, new readability or hang-up of `fd` (edge-triggered) ends a sleep; reading it is the pollers'
  // matter. False: the kernel refuses to watch it. Unwatch before closing.
  [[nodiscard]] bool watch(int fd) noexcept;
  void unwatch(int fd) noexcept;

  // For a thread with a loop of another kind, which calls run_ready() after each use of the shard and when
  // this descriptor is readable, as timers and wake() make it, too. -1: the kernel has none left.
  [[nodiscard]] int descriptor() noexcept;
  // Does what can be done now. True: there is more, so call it again before the loop waits. False: the shard
  // sleeps from now on, and whatever comes makes descriptor() readable. REQUIRES: that is not -1.
  [[nodiscard]] bool run_ready() noexcept;

  // Times the shard really slept.
  [[nodiscard]] uint64_t sleep_count() const noexcept { return sleep_count_; }

 private:
  class Detached;
  struct Spawned;
  struct Timer {
    uint64_t moment_ns = 0;
    uint64_t sequence = 0;
    std::coroutine_handle<> waiter;
    // Of a heap whose front is the earliest.
    bool operator<(const Timer& other) const noexcept {
      return moment_ns != other.moment_ns ? moment_ns > other.moment_ns : sequence > other.sequence;
    }
  };

  template <typename T>
  friend T block_on(Shard& shard, Task<T> task);
  template <typename T>
  friend bool has_run(Shard& shard, Task<T>& task);

  // As run_until, for a caller that has just looked at the clock.
  template <typename Done>
  bool run_from_now(Done& done, uint64_t deadline_ns) {
    idle_polls_ = 0;
    yields_ = 0;
    ask_due_ns_ = 0;
    if (is_asleep_elsewhere_) [[unlikely]]
      end_sleep();
    while (!done()) {
      if (poll_once() > 0) {
        idle_polls_ = 0;
        yields_ = 0;
        if (now_ns_ < deadline_ns) continue;
      }
      // Asked again, so that no poll can make it true and be followed by a sleep.
      if (done()) return true;
      if (now_ns_ >= deadline_ns) return false;
      if (!wait(deadline_ns)) return done();
    }
    return true;
  }

  static Detached drive(Task<> task);
  uint64_t add_timer(uint64_t moment_ns, std::coroutine_handle<> waiter) noexcept;
  void cancel_timer(uint64_t sequence) noexcept;
  size_t fire_timers() noexcept;
  void look_soon() noexcept;
  size_t look_at_time() noexcept;
  void forget_removed_pollers() noexcept;
  [[nodiscard]] bool wait(uint64_t deadline_ns) noexcept;
  [[nodiscard]] bool may_sleep() noexcept;
  void try_to_sleep(uint64_t until_ns) noexcept;
  [[nodiscard]] bool begin_sleep() noexcept;
  void end_sleep() noexcept;
  [[nodiscard]] bool set_alarm() noexcept;
  void sleep_in_kernel(uint64_t until_ns, bool may_be_woken) noexcept;
  [[nodiscard]] bool open_epoll() noexcept;

  const Clock* clock_;
  ShardOptions options_;
  uint64_t now_ns_;
  unsigned polls_between_looks_;  // At the clock, which costs more than an idle poll.
  unsigned polls_until_look_ = 1;
  bool look_is_early_ = true;
  uint64_t looked_at_ns_ = 0;
  uint64_t idle_polls_ = 0;
  uint64_t idle_since_ns_ = 0;
  uint64_t awake_until_ns_ = 0;
  MayWait may_wait_ = nullptr;
  uint64_t ask_due_ns_ = 0;
  unsigned yields_ = 0;  // Since the last work.
  bool polling_ = false;
  bool pollers_removed_ = false;
  size_t pollers_asked_ = 0;          // By begin_sleep(), until end_sleep().
  bool is_asleep_elsewhere_ = false;  // In another loop: run_ready().
  uint64_t alarm_ns_ = 0;             // What alarm_fd_ is set to. In the past: it has rung.
  std::vector<Poller*> pollers_;      // Null: removed during a poll.
  std::vector<Timer> timers_;         // A heap.
  uint64_t next_sequence_ = 1;
  uint64_t sleep_count_ = 0;
  Spawned* spawned_ = nullptr;  // The first of a list.
  Gate gate_;
  OpTable ops_;
  int epoll_fd_ = -1;
  int alarm_fd_ = -1;
  std::atomic<int> wake_fd_ = -1;
  std::atomic<bool> asleep_ = false;
  std::atomic<bool> wake_wanted_ = false;
  std::atomic<bool> stop_wanted_ = false;
};

// The awaitable of sleep_for. It names its timer by number, so it may lie anywhere in a frame.
class [[nodiscard]] Shard::Sleep {
 public:
  Sleep(const Sleep&) = delete;
  Sleep& operator=(const Sleep&) = delete;
  ~Sleep() { shard_->cancel_timer(sequence_); }

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter) noexcept {
    sequence_ = shard_->add_timer(moment_ns_, waiter);
  }
  void await_resume() noexcept { sequence_ = 0; }

 private:
  friend class Shard;
  Sleep(Shard* shard, uint64_t moment_ns) noexcept : shard_(shard), moment_ns_(moment_ns) {}

  Shard* shard_;
  uint64_t moment_ns_;
  uint64_t sequence_ = 0;
};

// Runs the task on the shard until it ends, and returns its result. Blocks; REQUIRES: not called from inside
// a poll. With an Idler that gives up, the task could never end: that is a failed check.
template <typename T>
T block_on(Shard& shard, Task<T> task) {
  shard.refresh_now();
  task.start();
  const auto ended = [&task] { return task.done(); };
  const Shard::MayWait ask = std::exchange(shard.may_wait_, nullptr);
  REFRACT_CHECK(shard.run_from_now(ended, kForever_ns));
  shard.may_wait_ = ask;
  return task.take();
}

// The same of a task that ask_before_sleeping() may end. False: it did, and the caller drops the task.
template <typename T>
[[nodiscard]] bool has_run(Shard& shard, Task<T>& task) {
  shard.refresh_now();
  task.start();
  const auto ended = [&task] { return task.done(); };
  return shard.run_from_now(ended, kForever_ns);
}

}  // namespace refract::runtime
