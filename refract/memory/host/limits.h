// SPDX-License-Identifier: Apache-2.0
// How much memory may be taken now, and by what it is limited.
//
// A memfd that grows over a cgroup's limit gets its process killed instead of an error, so a region is made
// only after asking here: the free memory of the machine, the limit minus the usage of every cgroup above
// this process (version 1 and 2, also from inside a container), and the largest file that the process may
// make. Page cache that the kernel gives back first (the inactive files of a cgroup) does not count as usage.
//
// All of it is a snapshot: others may take memory right after. Control path only; any thread; allocates.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/report.h"
#include "refract/memory/host/system_root.h"

namespace refract {

// A number that says "no limit".
inline constexpr uint64_t kUnlimited = UINT64_MAX;

// One limit that has a number.
struct MemoryLimit {
  std::string holder;  // "the machine", "the cgroup /user.slice (version 2)"
  std::string mend;    // What raises it: "raise /sys/fs/cgroup/user.slice/memory.max"
  uint64_t limit_bytes = 0;
  uint64_t used_bytes = 0;
  bool is_hard = true;  // False for memory.high: beyond it the kernel slows us down and kills no process.
  bool is_of_files = false;  // Binds memfds alone.

  [[nodiscard]] uint64_t left_bytes() const noexcept {
    return limit_bytes > used_bytes ? limit_bytes - used_bytes : 0;
  }
};

struct MemoryLimits {
  std::vector<MemoryLimit> limits;  // The machine's own memory comes first, so there is always one.
  // What the process may lock (RLIMIT_MEMLOCK: binds devices that pin memory) and what of addresses it may
  // still reserve (RLIMIT_AS: binds AddressSpace, not the regions in it); kUnlimited if unlimited.
  uint64_t lockable_bytes = kUnlimited;
  uint64_t addresses_bytes = kUnlimited;

  // The hard limit that leaves least.
  [[nodiscard]] const MemoryLimit& tightest() const noexcept;
  // The soft limit that leaves least, or null.
  [[nodiscard]] const MemoryLimit* tightest_soft() const noexcept;
  // What may be taken before the tightest hard limit is met.
  [[nodiscard]] uint64_t available_bytes() const noexcept { return tightest().left_bytes(); }
};

// Fails only where /proc/meminfo cannot be read; a cgroup that cannot be read is left out.
[[nodiscard]] Reported<MemoryLimits> memory_limits(const SystemRoot& system = {});

// A cgroup that may limit this process's memory.
struct MemoryCgroup {
  int version = 2;
  std::string name;    // As seen from this process: "/user.slice".
  std::string folder;  // "/sys/fs/cgroup/user.slice", without the root's prefix.
};
// All of them: version 1 before version 2, and in each from the process's own cgroup up to the topmost
// visible one.
[[nodiscard]] std::vector<MemoryCgroup> memory_cgroups(const SystemRoot& system = {});

// kNoSpace, with the limit that binds and the way out, unless `bytes` fit and `headroom_bytes` stay free.
[[nodiscard]] Reported<> check_room(uint64_t bytes, uint64_t headroom_bytes, const SystemRoot& system = {});

// For memory that a program takes for itself, beside a node's regions: kNoSpace, with the limit that binds
// and the way out, where so many bytes would end the process instead of being refused. `is_file`: of a memfd,
// which the limit of file sizes binds too. Of less than kLookedAtBytes nothing but that limit is looked at:
// the look takes some 0.1 ms, which is more than such memory does. A machine that does not say what it has
// refuses nothing.
inline constexpr uint64_t kLookedAtBytes = 16ULL << 20;
[[nodiscard]] Reported<> check_own_room(uint64_t bytes, bool is_file, const SystemRoot& system = {});

inline constexpr uint64_t kHugePageBytes = 2ULL << 20;

// Pages of kHugePageBytes that an administrator has set aside. All 0 where the kernel has none.
struct HugePages {
  uint64_t total = 0;
  uint64_t free = 0;  // Without those that are promised to a mapping already.
};
[[nodiscard]] HugePages huge_pages(const SystemRoot& system = {});

// The soft limit of this process that /proc/self/limits lists under `name` ("Max open files"); kUnlimited if
// it is unlimited or not listed.
[[nodiscard]] uint64_t process_limit(std::string_view name, const SystemRoot& system = {});

// "64 GiB", "1.5 MiB", "17 B": at most one digit behind the point, rounded down, for people.
[[nodiscard]] std::string bytes_text(uint64_t bytes);

}  // namespace refract
