// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/host/limits.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>

#include "refract/base/units.h"

namespace refract {
namespace {

// Version 1 writes "no limit" as the largest multiple of a page below 2^63; nothing real comes near.
constexpr uint64_t kNoLimitFrom = uint64_t{1} << 62;

struct CgroupMount {
  int version = 2;
  std::string root;   // The cgroup that the mount shows at its top.
  std::string point;  // Where.
};

// Blanks and backslashes of a path stand in mountinfo as \040 and so on.
std::string without_octal(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) { return static_cast<unsigned>(text[at] - '0'); };
    if (text[i] == '\\' && i + 3 < text.size() && digit(i + 1) < 4 && digit(i + 2) < 8 && digit(i + 3) < 8) {
      plain.push_back(static_cast<char>(digit(i + 1) * 64 + digit(i + 2) * 8 + digit(i + 3)));
      i += 3;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

bool has_piece(std::string_view list, char separator, std::string_view piece) {
  return std::ranges::count(pieces_of(list, separator), piece) > 0;
}

// A line is: id parent device root point options [tags ...] - type source options-of-the-file-system.
std::vector<CgroupMount> cgroup_mounts(const SystemRoot& system) {
  std::vector<CgroupMount> mounts;
  const std::string text = system.read("/proc/self/mountinfo").value_or("");
  for (const std::string_view line : pieces_of(text, '\n')) {
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto head = pieces_of(line.substr(0, dash), ' ');
    const auto tail = pieces_of(line.substr(dash + 3), ' ');
    if (head.size() < 6 || tail.size() < 3) continue;
    const bool is_first = tail[0] == "cgroup" && has_piece(tail[2], ',', "memory");
    if (!is_first && tail[0] != "cgroup2") continue;
    mounts.push_back({is_first ? 1 : 2, without_octal(head[3]), without_octal(head[4])});
  }
  return mounts;
}

// The process's own cgroup in the hierarchy that controls memory; empty if it has none. A line of
// /proc/self/cgroup is: hierarchy-id:controllers:path, and version 2 has id 0 and no controllers.
std::string own_cgroup(const SystemRoot& system, int version) {
  const std::string text = system.read("/proc/self/cgroup").value_or("");
  for (const std::string_view line : pieces_of(text, '\n')) {
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool matches = version == 1 ? has_piece(controllers, ',', "memory") : line.starts_with("0::");
    const std::string_view path = line.substr(second + 1);
    if (matches && path.starts_with('/')) return std::string(path);
  }
  return {};
}

// Where `name` lies below the mount; "" if that is not visible. A container may see a mount of its own cgroup
// only, while the name is the host's, or a name with ".." if the process was moved out of its namespace.
std::string path_below(const CgroupMount& mount, const std::string& name) {
  if (name.find("/..") != std::string::npos) return {};
  if (mount.root == "/") return name == "/" ? "" : name;
  if (name.starts_with(mount.root + "/")) return name.substr(mount.root.size());
  return {};
}

void append_chain(const SystemRoot& system, const CgroupMount& mount, std::vector<MemoryCgroup>& cgroups) {
  std::string name = own_cgroup(system, mount.version);
  if (name.empty()) return;
  std::string below = path_below(mount, name);
  if (!system.has_folder(mount.point + below)) below.clear();
  for (;;) {
    cgroups.push_back({mount.version, name, mount.point + below});
    if (below.empty()) return;
    below.resize(below.rfind('/'));
    name.resize(name.rfind('/'));
    if (name.empty()) name.push_back('/');
  }
}

struct CgroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  // The line of memory.stat that counts page cache not used lately.
};
constexpr CgroupFiles kFirst{"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"};
constexpr CgroupFiles kSecond{"/memory.max", "/memory.current", "inactive_file"};

uint64_t used_bytes(const SystemRoot& system, const MemoryCgroup& cgroup, const CgroupFiles& files) {
  const uint64_t usage = leading_number(system.read(cgroup.folder + files.usage).value_or("")).value_or(0);
  const std::string stat = system.read(cgroup.folder + "/memory.stat").value_or("");
  const uint64_t reclaimable = number_of_line(stat, files.reclaimable).value_or(0);
  return usage - std::min(usage, reclaimable);
}

void append_limit(const SystemRoot& system, const MemoryCgroup& cgroup, std::string_view file, bool is_hard,
                  std::vector<MemoryLimit>& limits) {
  const std::string path = cgroup.folder + std::string(file);
  // "max" is no number.
  const auto limit = leading_number(system.read(path).value_or(""));
  if (!limit || *limit >= kNoLimitFrom) return;
  limits.push_back({.holder = fmt::format("the cgroup {} (version {})", cgroup.name, cgroup.version),
                    .mend = "raise " + path,
                    .limit_bytes = *limit,
                    .used_bytes = used_bytes(system, cgroup, cgroup.version == 1 ? kFirst : kSecond),
                    .is_hard = is_hard});
}

// Version 1 says in the leaf what all its ancestors allow, also those that a container does not see.
void append_hidden_limit(const SystemRoot& system, const MemoryCgroup& leaf,
                         std::vector<MemoryLimit>& limits) {
  const auto stat = system.read(leaf.folder + "/memory.stat");
  const auto limit = number_of_line(stat.value_or(""), "hierarchical_memory_limit");
  if (!limit || *limit >= kNoLimitFrom) return;
  for (const MemoryLimit& seen : limits) {
    if (seen.limit_bytes <= *limit) return;
  }
  limits.push_back({.holder = "a cgroup outside this container (version 1)",
                    .mend = "raise the memory limit of the container",
                    .limit_bytes = *limit,
                    .used_bytes = used_bytes(system, leaf, kFirst),
                    .is_hard = true});
}

void append_cgroups(const SystemRoot& system, std::vector<MemoryLimit>& limits) {
  const std::vector<MemoryCgroup> cgroups = memory_cgroups(system);
  std::vector<MemoryLimit> found;
  for (const MemoryCgroup& cgroup : cgroups) {
    if (cgroup.version == 1) {
      append_limit(system, cgroup, kFirst.limit, true, found);
    } else {
      append_limit(system, cgroup, kSecond.limit, true, found);
      append_limit(system, cgroup, "/memory.high", false, found);
    }
  }
  if (!cgroups.empty() && cgroups.front().version == 1) append_hidden_limit(system, cgroups.front(), found);
  std::ranges::move(found, std::back_inserter(limits));
}

}  // namespace

const MemoryLimit& MemoryLimits::tightest() const noexcept {
  const MemoryLimit* tightest = &limits.front();
  for (const MemoryLimit& limit : limits) {
    if (limit.is_hard && limit.left_bytes() < tightest->left_bytes()) tightest = &limit;
  }
  return *tightest;
}

const MemoryLimit* MemoryLimits::tightest_soft() const noexcept {
  const MemoryLimit* tightest = nullptr;
  for (const MemoryLimit& limit : limits) {
    if (!limit.is_hard && (tightest == nullptr || limit.left_bytes() < tightest->left_bytes()))
      tightest = &limit;
  }
  return tightest;
}

std::vector<MemoryCgroup> memory_cgroups(const SystemRoot& system) {
  std::vector<MemoryCgroup> cgroups;
  const std::vector<CgroupMount> mounts = cgroup_mounts(system);
  for (const int version : {1, 2}) {
    // The same hierarchy may be mounted several times; the last mount lies on top of the others.
    const auto mount = std::ranges::find(mounts.rbegin(), mounts.rend(), version, &CgroupMount::version);
    if (mount != mounts.rend()) append_chain(system, *mount, cgroups);
  }
  return cgroups;
}

Reported<MemoryLimits> memory_limits(const SystemRoot& system) {
  const std::string meminfo = system.read("/proc/meminfo").value_or("");
  const auto total = number_of_line(meminfo, "MemTotal:");
  const auto available = number_of_line(meminfo, "MemAvailable:");
  if (!total || !available) {
    return report(Code::kSystem,
                  fmt::format("{} does not say how much memory is free", system.at("/proc/meminfo")),
                  "mount /proc: mount -t proc proc /proc");
  }
  MemoryLimits result;
  result.limits.push_back({.holder = "the machine",
                           .mend = "free memory on this machine",
                           .limit_bytes = *total * kKiB,
                           .used_bytes = (*total - std::min(*total, *available)) * kKiB,
                           .is_hard = true});
  append_cgroups(system, result.limits);
  // A file cannot grow beyond this limit, and a memfd counts as a file.
  if (const uint64_t file_bytes = process_limit("Max file size", system); file_bytes != kUnlimited) {
    result.limits.push_back({.holder = "the largest file that this process may make",
                             .mend = "run 'ulimit -f unlimited' before the start",
                             .limit_bytes = file_bytes,
                             .used_bytes = 0,
                             .is_hard = true,
                             .is_of_files = true});
  }
  result.lockable_bytes = process_limit("Max locked memory", system);
  if (const uint64_t addresses = process_limit("Max address space", system); addresses != kUnlimited) {
    const uint64_t used = leading_number(system.read("/proc/self/statm").value_or("")).value_or(0) * 4 * kKiB;
    result.addresses_bytes = addresses - std::min(addresses, used);
  }
  return result;
}

Reported<> check_room(uint64_t bytes, uint64_t headroom_bytes, const SystemRoot& system) {
  const Reported<MemoryLimits> limits = memory_limits(system);
  if (!limits) return report(limits.error());
  const uint64_t available = limits->available_bytes();
  if (bytes <= available && available - bytes >= headroom_bytes) return {};
  const MemoryLimit& binding = limits->tightest();
  std::string what = fmt::format("a region of {} does not fit: {} allows {} more", bytes_text(bytes),
                                 binding.holder, bytes_text(available));
  if (bytes <= available) what += fmt::format(", and {} must stay free", bytes_text(headroom_bytes));
  return report(Code::kNoSpace, std::move(what),
                fmt::format("lower memory.limit (--memory-limit), or {}", binding.mend));
}

Reported<> check_own_room(uint64_t bytes, bool is_file, const SystemRoot& system) {
  rlimit file_size{};
  const bool is_bound = is_file && ::getrlimit(RLIMIT_FSIZE, &file_size) == 0 && bytes > file_size.rlim_cur;
  if (!is_bound && bytes < kLookedAtBytes) return {};
  Reported<MemoryLimits> limits = memory_limits(system);
  if (!limits) return {};
  if (!is_file) std::erase_if(limits->limits, [](const MemoryLimit& limit) { return limit.is_of_files; });
  const uint64_t available = limits->available_bytes();
  if (bytes <= available) return {};
  const MemoryLimit& binding = limits->tightest();
  return report(Code::kNoSpace,
                fmt::format("{} of memory do not fit: {} allows {} more", bytes_text(bytes), binding.holder,
                            bytes_text(available)),
                binding.mend);
}

HugePages huge_pages(const SystemRoot& system) {
  static constexpr std::string_view kFolder = "/sys/kernel/mm/hugepages/hugepages-2048kB/";
  const auto number = [&](std::string_view name) {
    return leading_number(system.read(std::string(kFolder) + std::string(name)).value_or("")).value_or(0);
  };
  const uint64_t free = number("free_hugepages");
  return {.total = number("nr_hugepages"), .free = free - std::min(free, number("resv_hugepages"))};
}

uint64_t process_limit(std::string_view name, const SystemRoot& system) {
  const std::string text = system.read("/proc/self/limits").value_or("");
  // "unlimited" is no number.
  return number_of_line(text, name).value_or(kUnlimited);
}

std::string bytes_text(uint64_t bytes) {
  static constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  uint64_t scale = 1;
  while (unit + 1 < kUnits.size() && bytes / scale >= 1024) {
    scale *= 1024;
    ++unit;
  }
  const uint64_t whole = bytes / scale;
  const uint64_t tenths = unit == 0 ? 0 : bytes % scale / (scale / 1024) * 10 / 1024;
  return tenths == 0 ? fmt::format("{} {}", whole, kUnits[unit])
                     : fmt::format("{}.{} {}", whole, tenths, kUnits[unit]);
}

}  // namespace refract
