// SPDX-License-Identifier: Apache-2.0
// A ShardThread is a thread of its own for a shard: named, and of such weight that its end can be the
// process's.
//
// The body makes the shard, or takes one that was made for it, and runs it; Shard::stop() from any thread
// ends it. What the body returns goes to `on_end`, on the same thread and as its last act; by default that
// ends the process at once, because a process that has lost one of its shards must not continue as if it were
// whole. Signals are left to the threads that were there before: this one has all of them blocked. It runs on
// any CPU that the process may use, also where its starter is bound to one: what works beside a shard would
// else take the shard's own time.
//
// Control path. Threads: the thread that started it destroys it.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "refract/base/report.h"

namespace refract::runtime {

// Ends the process with this code, and runs nothing first: no destructor, no handler.
[[noreturn]] void end_process(int code) noexcept;

struct ThreadOptions {
  std::string name = {};  // What ps, top and debuggers show; the system keeps 15 bytes.
  std::function<void(int code)> on_end = end_process;
  // Added to its starter's, as nice(1) has it: for work that no caller waits for.
  int niceness = 0;
  // Runs while no other thread wants the CPU, and gives it up at once when one does (SCHED_IDLE). Without
  // privileges there is no way back: where all CPUs are busy, such a thread makes hardly any progress.
  bool in_idle_time = false;
};

class ShardThread {
 public:
  // kSystem: the system has no room for another thread.
  [[nodiscard]] static Reported<std::unique_ptr<ShardThread>> start(ThreadOptions options,
                                                                    std::function<int()> body);
  ShardThread(const ShardThread&) = delete;
  ShardThread& operator=(const ShardThread&) = delete;
  // Waits for the body's end. REQUIRES: the body has been told to end.
  ~ShardThread();

 private:
  ShardThread(ThreadOptions options, std::function<int()> body) noexcept
      : options_(std::move(options)), body_(std::move(body)) {}
  static void* run(void* self) noexcept;

  ThreadOptions options_;
  std::function<int()> body_;
  pthread_t thread_{};
};

// The calling thread, but none that it starts, runs on this CPU alone from now on. kInvalidArgument: there is
// no such CPU, or the process may not use it.
[[nodiscard]] Reported<> bind_this_thread(uint32_t cpu);

}  // namespace refract::runtime
