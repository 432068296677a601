// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/host/address_space.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "refract/base/check.h"
#include "refract/memory/host/limits.h"

namespace refract {
namespace {

constexpr int kReserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

uint64_t misaligned_bytes(const std::byte* address) {
  return reinterpret_cast<uintptr_t>(address) % kHugePageBytes;
}

}  // namespace

AddressSpace::AddressSpace(AddressSpace&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      options_(other.options_) {}

AddressSpace& AddressSpace::operator=(AddressSpace&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(options_, other.options_);
  return *this;
}

AddressSpace::~AddressSpace() {
  if (base_ != nullptr) REFRACT_CHECK(::munmap(base_, bytes_) == 0);
}

Reported<AddressSpace> AddressSpace::reserve(uint64_t bytes, Options options) {
  static constexpr uint64_t kBytesMax = uint64_t{1}
                                        << 46;  // Half of what a process has without five-level tables.
  if (bytes == 0 || bytes > kBytesMax) {
    return report(Code::kInvalidArgument, fmt::format("cannot reserve {} of addresses", bytes_text(bytes)),
                  fmt::format("choose between 1 B and {}", bytes_text(kBytesMax)));
  }
  bytes = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  // The kernel aligns to 4 KiB only: take one large page more, and give back what sticks out on both sides.
  const uint64_t taken = bytes + kHugePageBytes;
  void* start = ::mmap(nullptr, taken, PROT_NONE, kReserved, -1, 0);
  if (start == MAP_FAILED) {
    return report(Code::kNoSpace,
                  fmt::format("cannot reserve {} of addresses: {}", bytes_text(bytes), errno_text(errno)),
                  "run 'ulimit -v unlimited' before the start, or lower memory.limit (--memory-limit)");
  }
  auto* first = static_cast<std::byte*>(start);
  const uint64_t before = (kHugePageBytes - misaligned_bytes(first)) % kHugePageBytes;
  if (before > 0) REFRACT_CHECK(::munmap(first, before) == 0);
  std::byte* base = first + before;
  if (before < kHugePageBytes) REFRACT_CHECK(::munmap(base + bytes, kHugePageBytes - before) == 0);
  AddressSpace space(base, bytes, options);
  space.advise(base, bytes);
  return space;
}

Reported<> AddressSpace::map(const Piece& piece) {
  if (!contains(piece.at, piece.bytes)) {
    return report(Code::kInvalidArgument, fmt::format("{} at offset {} lie outside the reserved {}",
                                                      bytes_text(piece.bytes), piece.at, bytes_text(bytes_)));
  }
  std::byte* address = base_ + piece.at;
  const int protection = piece.writable ? PROT_READ | PROT_WRITE : PROT_READ;
  if (::mmap(address, piece.bytes, protection, MAP_SHARED | MAP_FIXED, piece.descriptor,
             static_cast<off_t>(piece.file_offset)) == MAP_FAILED) {
    const int cause = errno;
    // The failed call may have torn a hole into the range, where anything could land.
    if (Reported<> restored = unmap(piece.at, piece.bytes); !restored) return restored;
    const bool is_denied = cause == EPERM || cause == EACCES;
    return report(is_denied         ? Code::kAccessDenied
                  : cause == ENOMEM ? Code::kNoSpace
                                    : Code::kSystem,
                  fmt::format("cannot map {} of a region {}: {}", bytes_text(piece.bytes),
                              piece.writable ? "writable" : "read-only", errno_text(cause)));
  }
  advise(address, piece.bytes);
  return {};
}

void AddressSpace::expect_writes(int descriptor, uint64_t at, uint64_t bytes) noexcept {
  REFRACT_CHECK(at <= bytes_ && bytes <= bytes_ - at);
  // Only what lies in memory has seals.
  const bool is_on_disk = ::fcntl(descriptor, F_GET_SEALS) < 0;
  // Memory that is written back to nowhere is mapped writable even when it is only read, and then the kernel
  // maps sixteen pages at a fault. Kernels before 5.14 do not know it, and fault.
  (void)::madvise(base_ + at, bytes, is_on_disk ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}

Reported<> AddressSpace::unmap(uint64_t at, uint64_t bytes) {
  if (!contains(at, bytes)) {
    return report(Code::kInvalidArgument, fmt::format("{} at offset {} lie outside the reserved {}",
                                                      bytes_text(bytes), at, bytes_text(bytes_)));
  }
  std::byte* address = base_ + at;
  if (::mmap(address, bytes, PROT_NONE, kReserved | MAP_FIXED, -1, 0) == MAP_FAILED) {
    return report(Code::kSystem,
                  fmt::format("cannot unmap {} of a region: {}", bytes_text(bytes), errno_text(errno)),
                  "raise the number of mappings: sysctl vm.max_map_count=262144");
  }
  advise(address, bytes);
  return {};
}

bool AddressSpace::contains(uint64_t at, uint64_t bytes) const noexcept {
  return bytes > 0 && at <= bytes_ && bytes <= bytes_ - at;
}

// Advice sticks to a mapping, not to its addresses, so it is given again after each change. Old kernels may
// refuse it for huge pages; the only loss is a larger core dump.
void AddressSpace::advise(std::byte* address, uint64_t bytes) const noexcept {
  if (!options_.in_core_dumps) (void)::madvise(address, bytes, MADV_DONTDUMP);
  if (options_.hidden_from_children) (void)::madvise(address, bytes, MADV_DONTFORK);
}

}  // namespace refract
