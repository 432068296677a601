// SPDX-License-Identifier: Apache-2.0
#include "refract/node/doctor/doctor.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "refract/memory/host/descriptor.h"
#include "refract/memory/host/large_pages.h"
#include "refract/node/config/config.h"
#include "refract/node/doctor/doctor_data.h"
#include "refract/node/doctor/doctor_network.h"
#include "refract/node/doctor/doctor_rdma.h"

namespace refract::node {
namespace {

constexpr uint64_t kLeastBytes = 16ULL << 20;

Finding memory(const DoctorInputs& inputs) {
  const Reported<MemoryLimits> limits = memory_limits(inputs.system);
  if (!limits) return {"memory", Health::kFail, limits.error().what, limits.error().next};
  const MemoryLimit& tightest = limits->tightest();
  const uint64_t available = tightest.left_bytes();
  Finding finding{"memory", Health::kOk,
                  fmt::format("{} available ({} binds), memory.limit {}", bytes_text(available),
                              tightest.holder, bytes_text(inputs.memory_limit_bytes)),
                  ""};
  if (inputs.backing.kind != BackingKind::kMemfd || available >= inputs.memory_limit_bytes) return finding;
  finding.health = available < kLeastBytes ? Health::kFail : Health::kWarn;
  finding.mend = fmt::format("{}, or lower memory.limit (--memory-limit)", tightest.mend);
  return finding;
}

Finding cgroup(const DoctorInputs& inputs) {
  const std::vector<MemoryCgroup> cgroups = memory_cgroups(inputs.system);
  const Reported<MemoryLimits> limits = memory_limits(inputs.system);
  if (cgroups.empty() || !limits)
    return {"cgroup", Health::kOk, "no cgroup controls the memory of this process", ""};
  const auto is_cgroup = [](const MemoryLimit& limit) {
    return limit.holder.find("cgroup") != std::string::npos;
  };
  const MemoryLimit* tightest = nullptr;
  for (const MemoryLimit& limit : limits->limits) {
    if (!limit.is_hard || !is_cgroup(limit)) continue;
    if (tightest == nullptr || limit.left_bytes() < tightest->left_bytes()) tightest = &limit;
  }
  const MemoryCgroup& own = cgroups.front();
  std::string found = fmt::format("version {}, {}: ", own.version, own.folder);
  found += tightest == nullptr
               ? "no limit"
               : fmt::format("{} leaves {} of {}", tightest->holder, bytes_text(tightest->left_bytes()),
                             bytes_text(tightest->limit_bytes));
  const MemoryLimit* soft = limits->tightest_soft();
  if (soft != nullptr && soft->left_bytes() < inputs.memory_limit_bytes) {
    return {
        "cgroup", Health::kWarn,
        fmt::format("{}; {} slows down after {} more", found, soft->holder, bytes_text(soft->left_bytes())),
        soft->mend};
  }
  return {"cgroup", Health::kOk, std::move(found), ""};
}

// Without them everything works, so there is nothing to mend.
Finding large_pages_of_memory() {
  return {"huge pages", Health::kOk,
          large_pages_are_granted()
              ? "the kernel grants pages of 2 MiB to memfd:"
              : "none for memfd:, so reads of many entries take longer: Linux from 6.1 on "
                "grants them, or memory.backing hugetlb: (--memory-backing) has them",
          ""};
}

Finding huge(const DoctorInputs& inputs) {
  const HugePages pages = huge_pages(inputs.system);
  Finding finding{"huge pages", Health::kOk,
                  fmt::format("{} of {} pages of 2 MiB free", pages.free, pages.total), ""};
  if (inputs.backing.kind == BackingKind::kMemfd) return large_pages_of_memory();
  if (inputs.backing.kind == BackingKind::kFile) {
    finding.found += ", not used by this configuration";
    return finding;
  }
  const uint64_t needed = (inputs.memory_limit_bytes + kHugePageBytes - 1) / kHugePageBytes;
  if (pages.free >= needed) return finding;
  finding.health = pages.free * kHugePageBytes < kLeastBytes ? Health::kFail : Health::kWarn;
  finding.found += fmt::format(", memory.limit needs {}", needed);
  finding.mend = fmt::format("sysctl vm.nr_hugepages={}", pages.total + needed - pages.free);
  return finding;
}

Finding file_folder(const DoctorInputs& inputs) {
  const std::string& path = inputs.backing.folder;
  struct statvfs status{};
  if (::statvfs(path.c_str(), &status) != 0) {
    return {"folder", Health::kFail, fmt::format("{}: {}", path, errno_text(errno)),
            "mkdir -m 700 -p " + path};
  }
  if (::access(path.c_str(), W_OK | X_OK) != 0) {
    return {"folder", Health::kFail, fmt::format("{} is not writable", path),
            "run as its owner, or choose another"};
  }
  const uint64_t free = status.f_bavail * status.f_frsize;
  const std::string found = fmt::format("{} has {} free", path, bytes_text(free));
  if (free >= inputs.memory_limit_bytes) return {"folder", Health::kOk, found, ""};
  return {"folder", Health::kWarn,
          found + fmt::format(", memory.limit is {}", bytes_text(inputs.memory_limit_bytes)),
          "free room there, or lower memory.limit (--memory-limit)"};
}

std::string limit_text(uint64_t limit) {
  return limit == kUnlimited ? "unlimited" : fmt::format("{}", limit);
}

// The hard limit, up to which a node raises its own.
uint64_t open_files_limit(const DoctorInputs& inputs) {
  static constexpr std::string_view kName = "Max open files";
  const std::string text = inputs.system.read("/proc/self/limits").value_or("");
  const size_t start = text.find(kName);
  if (start == std::string::npos) return kUnlimited;
  std::string_view rest = std::string_view(text).substr(start + kName.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  rest.remove_prefix(std::min(rest.find(' '), rest.size()));
  // "unlimited" is no number.
  return leading_number(rest).value_or(kUnlimited);
}

Finding open_files(const DoctorInputs& inputs) {
  // Of each client at each shard: the socket, the client's page, its ring and its wake-up, or a connection
  // over TCP; and what the node itself holds.
  const uint64_t needed = uint64_t{4} * inputs.clients_max * inputs.shards + 64;
  const uint64_t limit = open_files_limit(inputs);
  Finding finding{"open files", Health::kOk, fmt::format("{} allowed", limit_text(limit)), ""};
  if (limit >= needed) return finding;
  finding.health = Health::kWarn;
  finding.found += fmt::format(", {} clients may need {}", inputs.clients_max, needed);
  finding.mend = fmt::format("ulimit -n {}", needed);
  return finding;
}

Finding process_limits(const DoctorInputs& inputs) {
  const uint64_t locked = process_limit("Max locked memory", inputs.system);
  const uint64_t core = process_limit("Max core file size", inputs.system);
  return {
      "limits", Health::kOk,
      fmt::format("locked memory {}, core files {}", locked == kUnlimited ? "unlimited" : bytes_text(locked),
                  core == 0            ? "none"
                  : core == kUnlimited ? "unlimited"
                                       : bytes_text(core)),
      ""};
}

Finding address_space(const DoctorInputs& inputs) {
  const Reported<MemoryLimits> limits = memory_limits(inputs.system);
  const uint64_t left = limits ? limits->addresses_bytes : kUnlimited;
  if (left == kUnlimited) return {"addresses", Health::kOk, "unlimited", ""};
  // Every region lies in one reservation, and programs need addresses besides.
  const bool is_enough = left / 2 >= inputs.memory_limit_bytes;
  return {"addresses", is_enough ? Health::kOk : Health::kFail,
          fmt::format("{} left, memory.limit {}", bytes_text(left), bytes_text(inputs.memory_limit_bytes)),
          is_enough ? "" : "ulimit -v unlimited"};
}

Finding shared_memory(const DoctorInputs& inputs) {
  struct statvfs status{};
  if (::statvfs(inputs.system.at("/dev/shm").c_str(), &status) != 0) {
    return {"/dev/shm", Health::kOk, "absent; a node does not need it", ""};
  }
  const uint64_t free = status.f_bavail * status.f_frsize;
  return {"/dev/shm", Health::kOk,
          fmt::format("{} large, {} free; a node does not need it",
                      bytes_text(status.f_blocks * status.f_frsize), bytes_text(free)),
          ""};
}

Finding memfd() {
  const Descriptor file(::memfd_create("refract-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file) return {"memfd", Health::kOk, "memfd_create works", ""};
  return {"memfd", Health::kFail, fmt::format("memfd_create: {}", errno_text(errno)),
          "allow memfd_create in the sandbox (seccomp)"};
}

Finding seals() {
  const Descriptor file(::memfd_create("refract-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int wanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
  if (!file || ::ftruncate(file.get(), 4096) != 0 || ::fcntl(file.get(), F_ADD_SEALS, wanted) != 0) {
    return {"seals", Health::kFail, fmt::format("F_SEAL_FUTURE_WRITE: {}", errno_text(errno)),
            "use a kernel from 5.1 on, or allow fcntl in the sandbox"};
  }
  if (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0) != MAP_FAILED) {
    return {"seals", Health::kFail, "a sealed region can be mapped writable", "use a kernel from 5.1 on"};
  }
  return {"seals", Health::kOk, "readers cannot write to a sealed region", ""};
}

Finding processor(const DoctorInputs& inputs) {
  const std::string text = inputs.system.read("/proc/cpuinfo").value_or("");
  const size_t start = text.find("\nflags");
  if (start == std::string::npos)
    return {"processor", Health::kWarn, "/proc/cpuinfo names no features", "mount /proc"};
  const std::string line = text.substr(start + 1, text.find('\n', start + 1) - start - 1);
  const auto features = pieces_of(line, ' ');
  const auto has = [&](std::string_view feature) { return std::ranges::count(features, feature) > 0; };
  std::vector<std::string_view> missing;
  for (const std::string_view feature : {"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"}) {
    if (!has(feature)) missing.push_back(feature);
  }
  if (!missing.empty()) {
    return {"processor", Health::kFail, fmt::format("not x86-64-v2: without {}", fmt::join(missing, ", ")),
            "use a newer processor, or give the virtual machine a newer model (host)"};
  }
  return {"processor", Health::kOk, fmt::format("x86-64-v2, {} AVX2", has("avx2") ? "with" : "without"), ""};
}

// How many CPUs "0-3,8" names.
uint64_t count_of(std::string_view list) {
  uint64_t count = 0;
  for (const std::string_view range : pieces_of(list, ',')) {
    const auto first = leading_number(range);
    if (!first) continue;
    const size_t dash = range.find('-');
    const auto last = dash == std::string_view::npos ? first : leading_number(range.substr(dash + 1));
    if (last && *last >= *first) count += *last - *first + 1;
  }
  return count;
}

Finding cpus(const DoctorInputs& inputs) {
  static constexpr std::string_view kLine = "Cpus_allowed_list:";
  const std::string text = inputs.system.read("/proc/self/status").value_or("");
  for (const std::string_view line : pieces_of(text, '\n')) {
    if (!line.starts_with(kLine)) continue;
    const size_t start = std::min(line.find_first_not_of(" \t", kLine.size()), line.size());
    const std::string_view list = line.substr(start);
    const uint64_t count = count_of(list);
    if (count >= 2) return {"CPUs", Health::kOk, fmt::format("{} allowed: {}", count, list), ""};
    return {"CPUs", Health::kWarn, fmt::format("only CPU {} allowed: server and clients share it", list),
            "taskset -c 0-1 refractd, or give the container more CPUs"};
  }
  return {"CPUs", Health::kWarn, "/proc/self/status does not say which are allowed", "mount /proc"};
}

Finding clock_source(const DoctorInputs& inputs) {
  static constexpr std::string_view kFolder = "/sys/devices/system/clocksource/clocksource0/";
  const auto source = inputs.system.read(std::string(kFolder) + "current_clocksource");
  if (!source) return {"clock", Health::kOk, "the kernel does not name its source", ""};
  const std::string found = fmt::format("source {}", *source);
  // These are read without a system call.
  for (const std::string_view quick : {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page"}) {
    if (*source == quick) return {"clock", Health::kOk, found, ""};
  }
  return {"clock", Health::kWarn, found + ": reading the time is a system call",
          fmt::format("echo tsc > {}current_clocksource", kFolder)};
}

Finding kernel(const DoctorInputs& inputs) {
  const std::string release = inputs.system.read("/proc/sys/kernel/osrelease").value_or("");
  const size_t dot = release.find('.');
  const auto major = leading_number(release);
  const auto minor = dot == std::string::npos ? std::nullopt : leading_number(release.substr(dot + 1));
  if (!major || !minor)
    return {"kernel", Health::kWarn, fmt::format("unknown version '{}'", release), "mount /proc"};
  const uint64_t version = *major * 1000 + *minor;
  if (version < 5001)
    return {"kernel", Health::kFail, release + ": regions cannot be sealed", "use Linux 5.1 or newer"};
  if (version < 5014)
    return {"kernel", Health::kWarn, release + ": taking memory is slower", "use Linux 5.14 or newer"};
  return {"kernel", Health::kOk, release, ""};
}

}  // namespace

DoctorInputs doctor_inputs(const NodeConfig& config) {
  return {.memory_limit_bytes = config.memory_limit_bytes,
          .backing = config.memory_backing,
          .socket_path = config.socket_path,
          .clients_max = config.clients_max,
          .shards = config.server_shards,
          .copies = config.kv_copies,
          .listen_address = config.listen_address,
          .secret_file = config.auth_secret_file,
          .rdma_device = config.rdma_device,
          .durability = config.durability,
          .data_folder = config.data_folder,
          .is_data_folder_default = config.is_data_folder_default,
          .directory = config.objects_directory,
          .directory_secret_file = config.objects_directory_secret_file};
}

Finding verdict(const DoctorInputs& inputs, std::span<const Finding> findings) {
  std::vector<std::string_view> failed;
  size_t warnings = 0;
  for (const Finding& finding : findings) {
    if (finding.health == Health::kFail) failed.push_back(finding.name);
    if (finding.health == Health::kWarn) ++warnings;
  }
  if (!failed.empty()) {
    return {"verdict", Health::kFail,
            fmt::format("a node with this configuration does not run here as it should: {}",
                        fmt::join(failed, ", ")),
            "what the lines marked FAIL say"};
  }
  std::string found = "a node runs here; clients of this host come by shared memory";
  if (inputs.listen_address.empty()) {
    found += ", those of others not at all: listen.address is none";
  } else {
    const auto rdma = rdma_choice(inputs);
    found += rdma ? fmt::format(", those of others by RDMA ({} port {}) or TCP", rdma->device, rdma->port)
                  : fmt::format(", those of others by TCP alone: {}", rdma.error().what);
  }
  if (warnings > 0) found += fmt::format("; {} warning{} above", warnings, warnings == 1 ? "" : "s");
  return {"verdict", Health::kOk, std::move(found), ""};
}

std::vector<Finding> examine(const DoctorInputs& inputs) {
  std::vector<Finding> findings = {memory(inputs), cgroup(inputs), huge(inputs)};
  if (inputs.backing.kind == BackingKind::kFile) findings.push_back(file_folder(inputs));
  for (Finding& finding : examine_data(inputs)) findings.push_back(std::move(finding));
  for (const auto check : {open_files, process_limits, address_space, shared_memory}) {
    findings.push_back(check(inputs));
  }
  for (Finding& finding : examine_network(inputs)) findings.push_back(std::move(finding));
  for (Finding& finding : examine_rdma(inputs)) findings.push_back(std::move(finding));
  findings.push_back(memfd());
  findings.push_back(seals());
  for (const auto check : {processor, cpus, clock_source, kernel}) findings.push_back(check(inputs));
  return findings;
}

}  // namespace refract::node
