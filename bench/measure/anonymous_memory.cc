// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/anonymous_memory.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "refract/base/units.h"

namespace refract::bench {

Reported<AnonymousMemory> AnonymousMemory::create(size_t bytes, Pages pages) {
  const size_t rounded = round_up(bytes, 2 * kMiB);
  const int huge = pages == Pages::kHuge ? MAP_HUGETLB : 0;
  // Twice as much, so that a 2 MiB boundary lies in it: transparent pages are aligned.
  const size_t taken = pages == Pages::kTransparent ? rounded + 2 * kMiB : rounded;
  void* start = ::mmap(nullptr, taken, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | huge, -1, 0);
  if (start == MAP_FAILED) {
    return report(Code::kNoSpace, fmt::format("cannot map {} MiB: {}", taken / kMiB, errno_text(errno)));
  }
  auto* base = static_cast<std::byte*>(start);
  if (pages == Pages::kTransparent) {
    const auto address = reinterpret_cast<uintptr_t>(base);
    const size_t lead = round_up(address, 2 * kMiB) - address;
    if (lead > 0) ::munmap(base, lead);
    base += lead;
    if (lead < 2 * kMiB) ::munmap(base + rounded, 2 * kMiB - lead);
    ::madvise(base, rounded, MADV_HUGEPAGE);
  } else if (pages == Pages::kSmall) {
    ::madvise(base, rounded, MADV_NOHUGEPAGE);
  }
  std::memset(base, 0, rounded);
  return AnonymousMemory(base, rounded);
}

void AnonymousMemory::Unmap::operator()(std::byte* base) const noexcept {
  ::munmap(base, bytes);
}

}  // namespace refract::bench
