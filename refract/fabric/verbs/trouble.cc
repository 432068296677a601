// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/verbs/trouble.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <string_view>

#include "refract/base/units.h"
#include "refract/memory/host/limits.h"

namespace refract::fabric::verbs {
namespace {

constexpr uint32_t bit(Step step) noexcept {
  return uint32_t{1} << static_cast<uint32_t>(step);
}
constexpr uint32_t kAny = ~uint32_t{0};
constexpr uint32_t kPath = bit(Step::kReadyToReceive) | bit(Step::kReadyToSend);
constexpr uint32_t kOpen = bit(Step::kListDevices) | bit(Step::kOpenDevice);
constexpr uint32_t kQueues =
    bit(Step::kCompletionQueue) | bit(Step::kReceiveQueue) | bit(Step::kPostReceives) | bit(Step::kQueuePair);
// Those that pin pages, of the caller or of the device's own library.
constexpr uint32_t kPins = kQueues | bit(Step::kRegister);

struct Cause {
  uint32_t steps;
  int error;
  Code code;
  const char* what;
  const char* next;
};

constexpr const char* kGone = "the device has failed or was taken away";
constexpr const char* kWhenBack = "see dmesg; connect again once the device is back";
constexpr const char* kFiles =
    "the kernel does not pin these pages: they are not mapped, or belong to a file on a disk";
constexpr const char* kBackings = "let regions lie on memfd:, hugetlb: or a folder on tmpfs (memory.backing)";
constexpr const char* kTooLarge = "the device allows none of this size";
constexpr const char* kFewer = "name another device, or allow fewer channels";
constexpr const char* kReach =
    "see that the two addresses reach each other (ping -I), or choose others with device and GID index";

// The first row that fits counts.
constexpr std::array kCauses = {
    Cause{kAny, EIO, Code::kUnavailable, kGone, kWhenBack},
    Cause{kAny, ENODEV, Code::kUnavailable, kGone, kWhenBack},
    Cause{kAny, ENXIO, Code::kUnavailable, kGone, kWhenBack},
    Cause{kOpen, ENOENT, Code::kUnavailable, kGone, kWhenBack},
    Cause{kOpen, EACCES, Code::kUnsupported, "this user may not open /dev/infiniband/uverbs*",
          "run as a member of the group that owns them, or as root"},
    Cause{kOpen, EPERM, Code::kUnsupported, "this process is kept from /dev/infiniband/uverbs*",
          "give the container the devices (--device /dev/infiniband)"},
    Cause{kAny, EMFILE, Code::kNoSpace, "this process has as many files open as it may",
          "raise the limit (ulimit -n; in a unit of systemd LimitNOFILE)"},
    Cause{kAny, ENFILE, Code::kNoSpace, "this host has as many files open as it may",
          "raise fs.file-max (sysctl)"},
    Cause{bit(Step::kRegister), EFAULT, Code::kUnsupported, kFiles, kBackings},
    Cause{bit(Step::kRegister), EOPNOTSUPP, Code::kUnsupported, kFiles, kBackings},
    Cause{bit(Step::kRegister), EINVAL, Code::kUnsupported,
          "the device takes no registration of this size, place or rights", kBackings},
    Cause{kQueues, EINVAL, Code::kUnsupported, kTooLarge, kFewer},
    Cause{kQueues, ENOSYS, Code::kUnsupported, kTooLarge, kFewer},
    Cause{kQueues, EOPNOTSUPP, Code::kUnsupported, kTooLarge, kFewer},
    Cause{kPath, ENETUNREACH, Code::kUnavailable, "no route leads there", kReach},
    Cause{kPath, EHOSTUNREACH, Code::kUnavailable, "no route leads there", kReach},
    Cause{kPath, ENETDOWN, Code::kUnavailable, "the port's network interface is down",
          "ip link set dev INTERFACE up"},
    Cause{kPath, ETIMEDOUT, Code::kUnavailable, "no machine there answers for the address", kReach},
    Cause{kPath, EINVAL, Code::kUnavailable,
          "the device knows no way there: the addresses are of different networks, or its own has gone",
          kReach},
    Cause{kPins, ENOMEM, Code::kNoSpace, "the kernel or the device has no room left for it",
          "end other users of the device, or allow fewer channels"},
    Cause{kPins, EAGAIN, Code::kNoSpace, "the kernel or the device has no room left for it",
          "end other users of the device, or allow fewer channels"},
    Cause{kAny, ENOMEM, Code::kNoSpace, "the kernel has no memory left for it", "see free and dmesg"},
};

// What the kernel checks before it asks the device: the pages pinned so far and those to come. A limit of
// nothing at all is EPERM.
bool is_lock_limit(const Trouble& trouble, const LockLimit& limit) noexcept {
  if ((bit(trouble.step) & kPins) == 0 || limit.is_unbound) return false;
  if (trouble.error == EPERM) return limit.bytes == 0;
  if (trouble.error != ENOMEM && trouble.error != EAGAIN) return false;
  // The library locks pages of its own for queues, so what is left may be little and still not enough.
  const bool is_known = trouble.pin_bytes > 0;
  return !is_known || limit.used_bytes >= limit.bytes || trouble.pin_bytes > limit.bytes - limit.used_bytes;
}

Report because_of(const Trouble& trouble, const LockLimit& limit) {
  std::string need;
  if (trouble.pin_bytes > 0) need = fmt::format(", and {} more are needed", bytes_text(trouble.pin_bytes));
  return {Code::kNoSpace,
          fmt::format("{}: this process may lock {} of memory (RLIMIT_MEMLOCK), {} are locked{}",
                      trouble.what, bytes_text(limit.bytes), bytes_text(limit.used_bytes), need),
          "raise the limit (ulimit -l unlimited; in a unit of systemd LimitMEMLOCK=infinity; for a container "
          "--ulimit memlock=-1); refract doctor says more"};
}

// The number behind `name` in /proc/self/status, in `base`.
uint64_t status_number(std::string_view name, int base) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (!std::string_view(line).starts_with(name)) continue;
    const size_t begin = std::min(line.find_first_not_of(" \t", name.size()), line.size());
    uint64_t value = 0;
    (void)std::from_chars(line.data() + begin, line.data() + line.size(), value, base);
    return value;
  }
  return 0;
}

}  // namespace

LockLimit lock_limit() {
  constexpr uint64_t kIpcLock = uint64_t{1} << 14;
  rlimit limit{};
  const bool is_known = ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0;
  return {.bytes = limit.rlim_cur,
          .used_bytes = status_number("VmPin:", 10) * kKiB,
          .is_unbound =
              !is_known || limit.rlim_cur == RLIM_INFINITY || (status_number("CapEff:", 16) & kIpcLock) != 0};
}

Report explain(const Trouble& trouble, const LockLimit& limit) {
  if (is_lock_limit(trouble, limit)) return because_of(trouble, limit);
  for (const Cause& cause : kCauses) {
    if ((cause.steps & bit(trouble.step)) == 0 || cause.error != trouble.error) continue;
    return {cause.code, fmt::format("{}: {} ({})", trouble.what, cause.what, errno_text(trouble.error)),
            fmt::format("{}; refract doctor says more", cause.next)};
  }
  return {Code::kSystem,
          fmt::format("{}: the kernel refuses, for a cause that is none of the usual ({})", trouble.what,
                      errno_text(trouble.error)),
          "see what the kernel says about the device (dmesg); refract doctor says more"};
}

}  // namespace refract::fabric::verbs
