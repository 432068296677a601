// SPDX-License-Identifier: Apache-2.0
// How often each command was called, and how it ended: INFO commandstats. A thread counts by itself, without
// a look at the clock: what is answered at once adds no time.
//
// Threads: any, unless something else is said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "refract/doors/redis/facts.h"

namespace refract::doors::redis {

struct Row;

struct CommandTallies {
  Tally calls;     // That were executed,
  Tally ns;        // for so long,
  Tally failed;    // and whose reply was an error.
  Tally rejected;  // That were not.
};

struct CommandSums {
  const Row* row = nullptr;
  uint64_t calls = 0;
  uint64_t ns = 0;
  uint64_t failed = 0;
  uint64_t rejected = 0;
};

class CommandCounts {
 public:
  explicit CommandCounts(size_t threads);

  // Of the thread at this place, which alone changes them. The row is one of the tables'.
  [[nodiscard]] CommandTallies& of(size_t thread, const Row& row) noexcept;
  // Of all threads, since the start or the last reset; those that are not all 0, in the order of the tables.
  [[nodiscard]] std::vector<CommandSums> sums() const;
  void reset();

 private:
  struct alignas(64) OfThread {
    std::vector<CommandTallies> tallies;
  };
  [[nodiscard]] std::vector<CommandSums> since_start() const;

  std::vector<OfThread> by_thread_;
  mutable std::mutex mutex_;
  std::vector<CommandSums> before_;  // Guarded by it.
};

}  // namespace refract::doors::redis
