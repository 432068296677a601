// SPDX-License-Identifier: Apache-2.0
#include "refract/runtime/shard_thread.h"

#include <fmt/core.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

namespace refract::runtime {
namespace {

// The system refuses longer names instead of cutting them.
constexpr size_t kNameBytesMax = 15;

// Where the calling thread could run before bind_this_thread().
thread_local std::optional<cpu_set_t> before_binding;

// In Linux each thread has a niceness of its own.
void give_way(int niceness) noexcept {
  const auto self = static_cast<id_t>(gettid());
  setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + niceness);
}

void keep_to_idle_time() noexcept {
  const sched_param parameters{};
  sched_setscheduler(0, SCHED_IDLE, &parameters);  // 0: this thread.
}

}  // namespace

void end_process(int code) noexcept {
  _exit(code);
}

Reported<std::unique_ptr<ShardThread>> ShardThread::start(ThreadOptions options, std::function<int()> body) {
  std::unique_ptr<ShardThread> thread(new ShardThread(std::move(options), std::move(body)));
  // Blocked before it begins, since it inherits the mask: a signal could come before it had set its own.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (before_binding) pthread_attr_setaffinity_np(&attributes, sizeof(cpu_set_t), &*before_binding);
  const int error = pthread_create(&thread->thread_, &attributes, run, thread.get());
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error == 0) return thread;
  thread->thread_ = {};
  return report(Code::kSystem,
                fmt::format("cannot start the thread {}: {}", thread->options_.name, errno_text(error)),
                "raise the limit of processes (ulimit -u), or that of the cgroup (pids.max)");
}

ShardThread::~ShardThread() {
  if (thread_ != pthread_t{}) pthread_join(thread_, nullptr);
}

void* ShardThread::run(void* self) noexcept {
  const ShardThread& thread = *static_cast<const ShardThread*>(self);
  const std::string name = thread.options_.name.substr(0, kNameBytesMax);
  pthread_setname_np(pthread_self(), name.c_str());
  if (thread.options_.niceness != 0) give_way(thread.options_.niceness);
  if (thread.options_.in_idle_time) keep_to_idle_time();
  thread.options_.on_end(thread.body_());
  return nullptr;
}

Reported<> bind_this_thread(uint32_t cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
  cpu_set_t before;
  const bool knows_before = sched_getaffinity(0, sizeof(before), &before) == 0;
  // 0: the calling thread, not the process.
  if (sched_setaffinity(0, sizeof(set), &set) == 0) {
    if (knows_before && !before_binding) before_binding = before;
    return {};
  }
  return report(Code::kInvalidArgument, fmt::format("cannot run on CPU {} alone: {}", cpu, errno_text(errno)),
                "see which CPUs the process may use: taskset -p PID");
}

}  // namespace refract::runtime
