// SPDX-License-Identifier: Apache-2.0
// Threads that put, get, hold and remove the same objects through all nodes, and judge each answer by the
// history of all of them.
//
// Threads: one has this; it starts and joins those of the load.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/cluster/shared_history.h"
#include "tests/cluster/shared_nodes.h"

namespace refract::test {

class SharedLoad {
 public:
  static constexpr int kThreads = 4;
  static constexpr uint64_t kIds = 16;

  // The nodes outlive it.
  explicit SharedLoad(SharedNodes& nodes);
  SharedLoad(const SharedLoad&) = delete;
  SharedLoad& operator=(const SharedLoad&) = delete;
  ~SharedLoad() { stop(); }

  void start();
  // Waits for all threads. They can be started again.
  void stop();
  // No thread begins a call to this node any more. What was made through it may be lost from now on.
  void avoid(size_t node);
  void use_again(size_t node);

  // What was wrong, one line each; and what the threads have seen.
  [[nodiscard]] std::string trouble() const;
  [[nodiscard]] uint64_t operations() const noexcept { return operations_.load(); }
  // Waits until so many more were done, or something was wrong.
  void go_on(uint64_t operations);
  struct Counts {
    std::atomic<uint64_t> made{0};
    std::atomic<uint64_t> found{0};
    std::atomic<uint64_t> missing{0};
    std::atomic<uint64_t> removed{0};
    std::atomic<uint64_t> missed{0};  // Removals that some node had not taken.
    std::atomic<uint64_t> refused{0};
    std::atomic<uint64_t> away{0};  // Also without an answer.
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }
  [[nodiscard]] std::string counts_text() const;

  // Asks each of these nodes for each id until it says what it has, judges it, and removes it.
  // REQUIRES: the load is stopped.
  void judge_the_end(const std::vector<size_t>& nodes);

 private:
  class Thread;
  void complain(const std::string& what);

  SharedNodes& nodes_;
  SharedHistory history_;
  std::array<std::atomic<bool>, SharedNodes::kNodes> is_used_;
  std::array<std::atomic<uint64_t>, SharedNodes::kNodes> lives_{};  // Of each node, as load knows it.
  std::atomic<bool> is_over_ = false;
  std::atomic<uint64_t> operations_ = 0;
  Counts counts_;
  uint64_t runs_ = 0;
  std::vector<std::thread> threads_;
  mutable std::mutex mutex_;
  std::vector<std::string> troubles_;
};

}  // namespace refract::test
