// SPDX-License-Identifier: Apache-2.0
// How much memory may be taken now, and by what it is limited.
//
// A memfd that grows over a cgroup's limit gets its process killed instead of an error, so a region is made
// only after asking here: the free memory of the machine, the limit minus the usage of every cgroup above
// this process (version 1 and 2, also from inside a container), and the process's own limits. Page cache that
// the kernel gives back first (the inactive files of a cgroup) does not count as usage.
//
// All of it is a snapshot: others may take memory right after. Control path only; any thread; allocates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "refract/base/report.h"

namespace refract {

// Where /proc and /sys are found: "" is this machine; tests give a folder with trees of their own.
struct SystemRoot {
  std::string folder;
  [[nodiscard]] std::string at(const std::string& path) const { return folder + path; }
};

// One limit that has a number. What it leaves is limit_bytes - used_bytes, never below 0.
struct MemoryLimit {
  std::string holder;        // "the cgroup /user.slice (version 2)", "the machine", "the process"
  std::string file_or_knob;  // What an administrator changes; empty for the machine's own memory.
  uint64_t limit_bytes = 0;
  uint64_t used_bytes = 0;
  bool is_hard = true;  // False for memory.high: beyond it the kernel slows us down, and kills nobody.
  [[nodiscard]] uint64_t left_bytes() const noexcept {
    return limit_bytes > used_bytes ? limit_bytes - used_bytes : 0;
  }
};

struct MemoryLimits {
  std::vector<MemoryLimit> limits;  // In the order found; the machine's own memory comes first.
  uint64_t lockable_bytes = 0;      // RLIMIT_MEMLOCK; UINT64_MAX if unlimited. Binds devices, not regions.

  // The hard limit that leaves least. There is always one: the machine's.
  [[nodiscard]] const MemoryLimit& tightest() const noexcept;
  // The soft limit that leaves least, or null.
  [[nodiscard]] const MemoryLimit* tightest_soft() const noexcept;
  // What may be taken before the tightest hard limit is met.
  [[nodiscard]] uint64_t available_bytes() const noexcept { return tightest().left_bytes(); }
};

// Fails only where /proc/meminfo cannot be read; a cgroup that cannot be read is left out.
[[nodiscard]] Reported<MemoryLimits> memory_limits(const SystemRoot& system = {});

// The folder of each cgroup that may limit this process's memory, leaf first, version 1 before version 2.
struct MemoryCgroup {
  int version = 2;
  std::string name;    // As the process's own /proc/self/cgroup names it: "/user.slice".
  std::string folder;  // "/sys/fs/cgroup/user.slice", without the root's prefix.
};
[[nodiscard]] std::vector<MemoryCgroup> memory_cgroups(const SystemRoot& system = {});

// kNoSpace, with the limit that binds and the way out, unless `bytes` fit and `headroom_bytes` stay free.
[[nodiscard]] Reported<> check_room(uint64_t bytes, uint64_t headroom_bytes, const SystemRoot& system = {});

// Pages of 2 MiB that an administrator has set aside. All 0 where the kernel has none.
struct HugePages {
  uint64_t total = 0;
  uint64_t free = 0;  // Without those that are promised to a mapping already.
};
[[nodiscard]] HugePages huge_pages(const SystemRoot& system = {});

// A soft limit of this process as /proc/self/limits names it ("Max open files"); UINT64_MAX if unlimited, 0
// if there is no such line.
[[nodiscard]] uint64_t process_limit(const std::string& name, const SystemRoot& system = {});

// "64 GiB", "1.5 MiB", "17 B": at most one digit behind the point, rounded down, for people.
[[nodiscard]] std::string bytes_text(uint64_t bytes);

}  // namespace refract
