// SPDX-License-Identifier: Apache-2.0
// For tests: runs a function in a forked child and says how the child ended; and what a child may do to
// itself.
#pragma once

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>

namespace refract::test {

// What the function returned (0 to 255), or 256 + the signal that ended the child.
template <typename Function>
int in_child(Function&& function) {
  const pid_t child = ::fork();
  if (child == 0) {
    // A fault is what some tests expect: no core file and no sanitizer's report is wanted then.
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    ::setrlimit(RLIMIT_CORE, &none);
    for (const int number : {SIGSEGV, SIGBUS}) std::signal(number, SIG_DFL);
    ::_exit(function());
  }
  EXPECT_GT(child, 0);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status);
}

// A system call that fails with `error` from now on if the low 32 bits of an argument, under a mask, have a
// value: how older or stricter kernels answer. For children only: there is no way back.
struct RefusedCall {
  long number = 0;
  uint32_t argument = 0;  // Its index.
  uint32_t mask = 0;
  uint32_t value = 0;
  uint32_t error = 0;
};

inline bool refuse(const RefusedCall& call) {
  const auto argument_at = static_cast<uint32_t>(offsetof(seccomp_data, args) + 8 * call.argument);
  std::array<sock_filter, 7> program = {{
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 4, static_cast<uint32_t>(call.number)},
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, argument_at},
      {BPF_ALU | BPF_AND | BPF_K, 0, 0, call.mask},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, call.value},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | call.error},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  }};
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

// Mounts a tmpfs that vanishes with the child; false where the system does not let us.
inline bool mount_tmpfs(const char* folder, const char* options) {
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", folder, "tmpfs", 0, options) == 0;
}

}  // namespace refract::test
