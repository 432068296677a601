// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/instruction_count.h"

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace refract::bench {
namespace {

enum ExitCode : int { kDone = 0, kFailed = 1, kNotTraced = 2 };

[[noreturn]] void run_in_child(const std::function<Operations()>& prepare, unsigned count) {
  const Operations operations = prepare();
  // What is taken once: pages, lazily bound functions.
  bool is_right = operations(200);
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(kNotTraced);
  (void)::raise(SIGSTOP);
  is_right = operations(count) && is_right;
  (void)::raise(SIGSTOP);
  ::_exit(is_right ? kDone : kFailed);
}

// 0: an operation failed.
std::optional<uint64_t> steps_of(const std::function<Operations()>& prepare, unsigned count) {
  const pid_t child = ::fork();
  if (child < 0) return std::nullopt;
  if (child == 0) run_in_child(prepare, count);
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return std::nullopt;
  uint64_t steps = 0;
  do {
    if (::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0) break;
    if (::waitpid(child, &status, 0) != child) break;
    ++steps;
  } while (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
  // It has ended by itself only if something is wrong.
  (void)::ptrace(PTRACE_CONT, child, nullptr, nullptr);
  if (!WIFEXITED(status)) (void)::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == kDone ? steps : 0;
}

}  // namespace

std::optional<uint64_t> instructions_of(const std::function<Operations()>& prepare) {
  constexpr unsigned kCount = 8;
  const auto with_one = steps_of(prepare, 1);
  const auto with_more = steps_of(prepare, 1 + kCount);
  if (!with_one || !with_more) return std::nullopt;
  if (*with_one == 0 || *with_more <= *with_one) return 0;
  return (*with_more - *with_one) / kCount;
}

}  // namespace refract::bench
