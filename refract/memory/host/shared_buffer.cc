// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/host/shared_buffer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <utility>

#include "refract/base/units.h"
#include "refract/memory/host/large_pages.h"
#include "refract/memory/host/limits.h"

namespace refract {
namespace {

constexpr uint64_t kLargePageBytes = 2 * kMiB;
constexpr unsigned kNoExecSeal = 0x0008;  // MFD_NOEXEC_SEAL: Linux 6.3; older headers do not name it.
// FUTURE_WRITE forbids punching holes, too, so that what is there stays there.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

std::unexpected<Report> failed(uint64_t bytes, int error) {
  const bool is_full = error == ENOSPC || error == ENOMEM;
  return report(is_full ? Code::kNoSpace : Code::kSystem,
                fmt::format("cannot take {} bytes of shared memory: {}", bytes, errno_text(error)),
                error == EMFILE ? "raise the limit of open files (ulimit -n)" : "free memory on this host");
}

Descriptor make_file() {
  Descriptor file(::memfd_create("refract-buffer", MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExecSeal));
  if (!file && errno == EINVAL)
    file = Descriptor(::memfd_create("refract-buffer", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  return file;
}

// Addresses for `bytes` that begin where a large page may.
std::byte* reserve_aligned(uint64_t bytes) noexcept {
  const uint64_t slack = bytes >= kLargePageBytes ? kLargePageBytes : 0;
  void* const got =
      ::mmap(nullptr, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(got);
  if (slack == 0) return first;
  const uint64_t lead = -reinterpret_cast<uintptr_t>(first) % kLargePageBytes;
  if (lead > 0) (void)::munmap(first, lead);
  if (lead < slack) (void)::munmap(first + lead + bytes, slack - lead);
  return first + lead;
}

}  // namespace

SharedBufferHold SharedBuffer::hold() noexcept {
  holds_.fetch_add(1, std::memory_order_relaxed);
  return SharedBufferHold(this);
}

void SharedBufferHold::let_go() noexcept {
  SharedBuffer* const buffer = std::exchange(buffer_, nullptr);
  if (buffer != nullptr && buffer->holds_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete buffer;
}

Reported<SharedBufferHold> SharedBuffer::make(uint64_t bytes) {
  bytes = round_up(bytes, bytes >= kLargePageBytes ? kLargePageBytes : kPageBytes);
  if (bytes == 0) return report(Code::kInvalidArgument, "a shared buffer has at least one byte");
  if (const Reported<> room = check_own_room(bytes, true); !room) return report(room.error());
  SharedBufferHold buffer = (new SharedBuffer)->hold();
  buffer->descriptor_ = make_file();
  const int file = buffer->descriptor_.get();
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) return failed(bytes, errno);
  std::byte* const place = reserve_aligned(bytes);
  if (place == nullptr) return failed(bytes, errno);
  buffer->data_ = place;
  buffer->bytes_ = bytes;
  buffer->maker_ = ::getpid();
  if (::mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
    return failed(bytes, errno);
  (void)take_large_pages(file, 0, place, bytes);
  while (::fallocate(file, 0, 0, static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return failed(bytes, errno);
  }
  (void)::madvise(place, bytes, MADV_POPULATE_WRITE);
  (void)::madvise(place, bytes, MADV_DONTDUMP);
  if (::madvise(place, bytes, MADV_DONTFORK) != 0 || ::fcntl(file, F_ADD_SEALS, kSeals | F_SEAL_SEAL) != 0)
    return failed(bytes, errno);
  return buffer;
}

bool SharedBuffer::is_of_this_process() const noexcept {
  return maker_ == ::getpid();
}

SharedBuffer::~SharedBuffer() {
  // In a child something else may lie there.
  if (data_ != nullptr && is_of_this_process()) (void)::munmap(data_, bytes_);
}

bool is_lendable(int descriptor, uint64_t bytes) noexcept {
  struct stat status{};
  struct statfs system{};
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return false;
  // Pages of hugetlbfs may be missing however many blocks the file has.
  if (::fstatfs(descriptor, &system) != 0 || system.f_type != TMPFS_MAGIC) return false;
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return false;
  return static_cast<uint64_t>(status.st_size) >= bytes &&
         static_cast<uint64_t>(status.st_blocks) * 512 >= static_cast<uint64_t>(status.st_size);
}

Result<SharedView> SharedView::map(int descriptor, uint64_t bytes) noexcept {
  if (bytes == 0 || !is_lendable(descriptor, bytes)) return fail(Code::kMalformed);
  const uint64_t mapped = round_up(bytes, kPageBytes);
  std::byte* const place = reserve_aligned(mapped);
  if (place == nullptr) return fail(Code::kSystem);
  SharedView view(place, mapped);
  if (::mmap(place, mapped, PROT_READ, MAP_SHARED | MAP_FIXED, descriptor, 0) == MAP_FAILED)
    return fail(Code::kSystem);
  (void)::madvise(place, mapped, MADV_DONTDUMP);
  view.bytes_ = bytes;
  return view;
}

SharedView::~SharedView() {
  if (data_ != nullptr) (void)::munmap(data_, round_up(bytes_, kPageBytes));
}

}  // namespace refract
