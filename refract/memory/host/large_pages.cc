// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/host/large_pages.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>

#include "refract/base/units.h"
#include "refract/memory/host/address_space.h"
#include "refract/memory/host/descriptor.h"
#include "refract/memory/host/limits.h"

namespace refract {
namespace {

constexpr int kMerge = 25;  // MADV_COLLAPSE; not in glibc's headers of Debian 12.
constexpr uint64_t kSmallPageBytes = 4096;
constexpr int kTries = 3;

// Another process or the kernel may hold a page for a moment: that passes.
bool merge(std::byte* page) noexcept {
  for (int tries = 1;; ++tries) {
    if (::madvise(page, kHugePageBytes, kMerge) == 0) return true;
    if ((errno != EAGAIN && errno != EINTR) || tries == kTries) return false;
  }
}

}  // namespace

uint64_t take_large_pages(int descriptor, uint64_t file_offset, std::byte* address, uint64_t bytes) noexcept {
  const auto start = reinterpret_cast<uintptr_t>(address);
  if ((start - file_offset) % kHugePageBytes != 0) return 0;
  const uint64_t lead = round_up(start, kHugePageBytes) - start;
  uint64_t taken = 0;
  for (uint64_t at = lead; at + kHugePageBytes <= bytes; at += kHugePageBytes) {
    // Of a page's place that holds nothing at all the kernel believes that the file was cut. One small page
    // is enough, and what lies between is zeroed as a whole, which is ten times as fast as page by page.
    if (::fallocate(descriptor, 0, static_cast<off_t>(file_offset + at), kSmallPageBytes) != 0) break;
    // Behind one that is refused others may be granted, but a kernel with few contiguous pages searches long.
    if (!merge(address + at)) break;
    taken += kHugePageBytes;
  }
  return taken;
}

void wish_for_large_pages(void* address, uint64_t bytes) noexcept {
  const auto start = reinterpret_cast<uintptr_t>(address);
  const uintptr_t first = round_up(start, kHugePageBytes);
  const uintptr_t end = (start + bytes) / kHugePageBytes * kHugePageBytes;
  if (first >= end) return;
  (void)::madvise(static_cast<std::byte*>(address) + (first - start), end - first, MADV_HUGEPAGE);
}

bool large_pages_are_granted() noexcept {
  const Descriptor file(::memfd_create("refract-page", MFD_CLOEXEC));
  if (!file || ::ftruncate(file.get(), kHugePageBytes) != 0) return false;
  Reported<AddressSpace> space = AddressSpace::reserve(kHugePageBytes);
  if (!space) return false;
  if (!space->map({.descriptor = file.get(), .bytes = kHugePageBytes, .writable = true})) return false;
  return take_large_pages(file.get(), 0, space->base(), kHugePageBytes) == kHugePageBytes;
}

}  // namespace refract
