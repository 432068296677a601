// SPDX-License-Identifier: Apache-2.0
// Large copies by several threads, where cores are free and it pays. See docs/design/038-copy-teams.md.
//
// One thread does not use a processor's whole memory bandwidth, and it takes the page faults of fresh memory
// one by one. Whether several do better depends on the machine, so it is tried: some copies of every so many
// are made alone and together, and the others as was faster by a quarter or more.
//
// Threads: any, at once; a copy that finds the team at work is made by its caller alone. Helpers are started
// by the first copy that wants them, block all signals, and sleep between copies.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "refract/base/clock.h"
#include "refract/base/units.h"

namespace refract {

// How many cores this thread may use have nothing to do, by what the kernel says at this moment. 0: none, or
// it does not say. Some microseconds.
[[nodiscard]] unsigned free_cores() noexcept;

// Whether copies are made together: the first of each period are trials of both ways.
class CopyTrials {
 public:
  static constexpr unsigned kTrials = 6;
  static constexpr unsigned kPeriod = 256;

  [[nodiscard]] bool wants_help() const noexcept { return round_ < kTrials ? round_ % 2 == 1 : pays_; }
  void note(bool is_helped, uint64_t ns, size_t bytes) noexcept;

 private:
  unsigned round_ = 0;
  bool pays_ = false;
  std::array<double, 2> best_{};  // ns a byte, alone and together; 0: not known.
};

class CopyTeam {
 public:
  // From this size on a copy may be shared: a helper's waking has to be worth it.
  static constexpr size_t kBytesMin = 4 * kMiB;
  static constexpr size_t kPieceBytes = 256 * kKiB;
  static constexpr unsigned kThreadsMax = 16;

  struct Options {
    unsigned threads_max = 4;  // The caller among them, up to kThreadsMax. 0, 1: always alone.
    unsigned (*free_cores)() noexcept = &refract::free_cores;
    const Clock& clock = system_clock();
    bool past_caches = false;  // By store_streaming: for what this process does not look at.
  };
  explicit CopyTeam(const Options& options) noexcept : options_(options) {}
  CopyTeam(const CopyTeam&) = delete;
  CopyTeam& operator=(const CopyTeam&) = delete;
  // REQUIRES: no copy is under way. In a child of the process that made it, helpers are those of the parent.
  ~CopyTeam();

  // As copy_possibly_torn, or store_streaming.
  void copy(std::byte* target, const std::byte* source, size_t bytes) noexcept;

  // Copies that helpers took part in, and helpers that were started.
  [[nodiscard]] uint64_t shared_copies() const noexcept { return shared_.load(std::memory_order_relaxed); }
  [[nodiscard]] unsigned helpers() const noexcept { return started_.load(std::memory_order_relaxed); }

 private:
  struct Job {
    std::byte* target;
    const std::byte* source;
    size_t bytes;
    size_t pieces;
  };
  // Of `door_`. A helper that comes in counts itself there, and none comes in that finds it closed: so the
  // job is the caller's alone once it is closed and no helper is inside.
  static constexpr uint32_t kOpen = 1U << 31U;

  [[nodiscard]] unsigned helpers_for(size_t pieces) noexcept;
  void start_up_to(unsigned wanted) noexcept;
  void copy_together(const Job& job, unsigned helpers) noexcept;
  bool copy_pieces() noexcept;
  void copy_alone(std::byte* target, const std::byte* source, size_t bytes) const noexcept;
  void help() noexcept;
  static void* help(void* team) noexcept;
  [[nodiscard]] bool enter() noexcept;
  void leave() noexcept;
  void wait_for_helpers() noexcept;

  const Options options_;
  std::atomic<bool> is_taken_ = false;  // By the caller whose copy it is; it alone uses what follows.
  CopyTrials trials_;
  Job job_{};
  std::array<pthread_t, kThreadsMax - 1> threads_{};
  int process_ = 0;  // That has started them.

  alignas(64) std::atomic<uint32_t> door_ = 0;
  std::atomic<size_t> next_piece_ = 0;
  std::atomic<bool> was_helped_ = false;
  alignas(64) std::atomic<uint32_t> calls_ = 0;  // Helpers sleep on it.
  std::atomic<bool> is_over_ = false;
  std::atomic<uint64_t> shared_ = 0;
  std::atomic<unsigned> started_ = 0;
};

}  // namespace refract
