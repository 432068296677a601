// SPDX-License-Identifier: Apache-2.0
// Cycles and instructions, as the processor counts them, of a thread or of a process with all its threads.
// Many virtual machines have no such counters, and some systems keep them from users: then there is nothing
// to show, and the output says so.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "refract/memory/host/descriptor.h"

namespace refract::bench {

struct Counts {
  uint64_t cycles = 0;
  uint64_t instructions = 0;
  uint64_t operations = 0;  // During which they were counted; 0: nothing was.
  bool has_kernel = true;   // Else the system kept from us what was done in the kernel, which is left out.

  Counts& operator+=(const Counts& other) noexcept {
    cycles += other.cycles;
    instructions += other.instructions;
    operations += other.operations;
    has_kernel = has_kernel && other.has_kernel;
    return *this;
  }
  [[nodiscard]] double cycles_per_operation() const noexcept { return per_operation(cycles); }
  [[nodiscard]] double instructions_per_operation() const noexcept { return per_operation(instructions); }

  [[nodiscard]] double per_operation(uint64_t count) const noexcept {
    return operations == 0 ? 0 : static_cast<double>(count) / static_cast<double>(operations);
  }
};

class Counters {
 public:
  // Of the calling thread, counting from here on. In the kernel, too, where that is allowed.
  [[nodiscard]] static Counters of_this_thread();
  // Of all threads that the process has at this moment.
  [[nodiscard]] static Counters of_process(pid_t pid);

  // Since they were made, during so many operations. With 0 operations: the machine has no counters, or keeps
  // them from us.
  [[nodiscard]] Counts during(uint64_t operations) const;

 private:
  // Both of one thread.
  struct Pair {
    Descriptor cycles;
    Descriptor instructions;
    bool has_kernel = true;
  };

  void add(pid_t thread);

  std::vector<Pair> pairs_;
  bool is_complete_ = true;
};

}  // namespace refract::bench
