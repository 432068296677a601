// SPDX-License-Identifier: Apache-2.0
// Whether this process is still the one that made a handle. A child must not touch what it inherited: the
// rings and pins are shared with its parent, and the parent continues to use them.
#pragma once

#include <atomic>
#include <cstdint>

namespace refract::client {

// Counts the forks above this process since the first call of watch_forks(). One load, where getpid() is a
// system call.
extern std::atomic<uint32_t> fork_depth;
void watch_forks() noexcept;

class ForkGuard {
 public:
  ForkGuard() noexcept {
    watch_forks();
    depth_ = fork_depth.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_child() const noexcept {
    return fork_depth.load(std::memory_order_relaxed) != depth_;
  }

 private:
  uint32_t depth_;
};

}  // namespace refract::client
