// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/host/region.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include "refract/base/check.h"
#include "refract/memory/host/large_pages.h"

namespace refract {
namespace {

// Neither is in glibc's headers of Debian 12. The first: kernels before 6.3 answer EINVAL.
constexpr unsigned kNoExecutableSeal = 0x0008U;
constexpr unsigned kPagesOf2MiB = 21U << 26;

constexpr const char* kLowerLimit = "lower memory.limit (--memory-limit)";

Descriptor open_retrying(const std::string& path, int flags, mode_t mode = 0) {
  for (;;) {
    Descriptor file(::open(path.c_str(), flags | O_CLOEXEC, mode));
    if (file || errno != EINTR) return file;
  }
}

std::string set_aside_command(uint64_t bytes, const HugePages& pages) {
  const uint64_t missing = bytes / kHugePageBytes - std::min(pages.free, bytes / kHugePageBytes);
  return fmt::format("run 'sysctl vm.nr_hugepages={}' as root, or use memfd: (--memory-backing)",
                     pages.total + missing);
}

// REQUIRES: bytes is a multiple of the large page.
Reported<> check_huge_pages(uint64_t bytes, const SystemRoot& system) {
  const HugePages pages = huge_pages(system);
  if (pages.free >= bytes / kHugePageBytes) return {};
  return report(Code::kNoSpace,
                fmt::format("a region of {} needs {} huge pages of 2 MiB, but {} of {} are free",
                            bytes_text(bytes), bytes / kHugePageBytes, pages.free, pages.total),
                set_aside_command(bytes, pages));
}

bool lies_in_memory(const struct statfs& status) {
  const auto type = static_cast<uint64_t>(status.f_type);
  return type == TMPFS_MAGIC || type == RAMFS_MAGIC;
}

// A file of a tmpfs takes memory like a memfd; on a disk it takes the disk's room.
Reported<> check_file_room(const std::string& folder, uint64_t bytes, const RegionSpec& spec) {
  struct statfs status{};
  if (::statfs(folder.c_str(), &status) != 0) {
    return report(Code::kSystem, fmt::format("cannot look at {}: {}", folder, errno_text(errno)));
  }
  const uint64_t free = static_cast<uint64_t>(status.f_bavail) * static_cast<uint64_t>(status.f_bsize);
  const bool is_memory = lies_in_memory(status);
  // A tmpfs without a limit says that it has no blocks at all.
  if (free < bytes && !(is_memory && status.f_blocks == 0)) {
    return report(Code::kNoSpace,
                  fmt::format("a region of {} does not fit into {}: the file system has {} free",
                              bytes_text(bytes), folder, bytes_text(free)),
                  is_memory ? fmt::format("{}, or enlarge the file system: mount -o remount,size=SIZE {}",
                                          kLowerLimit, folder)
                            : fmt::format("{}, free room there, or choose another folder", kLowerLimit));
  }
  return is_memory ? check_room(bytes, spec.headroom_bytes, spec.system) : Reported<>{};
}

Reported<> check_spec(const AddressSpace& space, const RegionSpec& spec) {
  const uint64_t page = page_bytes(spec.backing);
  if (spec.bytes == 0 || spec.bytes % page != 0 || spec.base % page != 0) {
    return report(Code::kInvalidArgument,
                  fmt::format("a region of {} B at {} does not consist of pages of {}", spec.bytes, spec.base,
                              bytes_text(page)));
  }
  if (spec.base > space.bytes() || spec.bytes > space.bytes() - spec.base) {
    return report(Code::kNoSpace, fmt::format("a region of {} at offset {} lies outside the node's {}",
                                              bytes_text(spec.bytes), spec.base, bytes_text(space.bytes())));
  }
  return {};
}

// Makes the kernel back each page, for kernels before 5.14: a write that changes nothing, since the bytes may
// matter.
void touch(std::byte* start, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += 4096) {
    (void)std::atomic_ref<unsigned char>(*reinterpret_cast<unsigned char*>(start + at)).fetch_or(0);
  }
}

}  // namespace

Reported<uint64_t> existing_region_bytes(const Backing& backing, uint16_t region) {
  if (backing.kind != BackingKind::kFile) return 0;
  const std::string path = region_path(backing, region);
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0) return static_cast<uint64_t>(status.st_size);
  if (errno == ENOENT) return 0;
  return report(Code::kSystem, fmt::format("cannot look at {}: {}", path, errno_text(errno)));
}

Reported<Region> Region::create(AddressSpace& space, const RegionSpec& spec) {
  if (Reported<> sound = check_spec(space, spec); !sound) return report(sound.error());
  Region region;
  region.spec_ = spec;
  Reported<> made = spec.backing.kind == BackingKind::kFile ? region.open_file() : region.make_memory();
  if (!made) return report(made.error());
  Reported<> mapped = space.map(
      {.descriptor = region.descriptor_.get(), .at = spec.base, .bytes = spec.bytes, .writable = true});
  if (!mapped) {
    if (spec.backing.kind != BackingKind::kHugetlb) return report(mapped.error());
    // Huge pages are promised at mmap: others were quicker than our look at the free ones.
    return report(Code::kNoSpace, mapped.error().what,
                  set_aside_command(spec.bytes, huge_pages(spec.system)));
  }
  region.data_ = space.base() + spec.base;
  // Opened now and not when readers ask: a process that has become undumpable cannot reopen its own
  // descriptors.
  region.read_only_ = open_retrying(fmt::format("/proc/self/fd/{}", region.descriptor_.get()), O_RDONLY);
  if (!region.read_only_ && spec.backing.kind == BackingKind::kFile) {
    region.read_only_ = open_retrying(region_path(spec.backing, spec.id), O_RDONLY | O_NOFOLLOW);
  }
  return region;
}

Region::Region(Region&& other) noexcept {
  *this = std::move(other);
}

Region& Region::operator=(Region&& other) noexcept {
  std::swap(spec_, other.spec_);
  std::swap(data_, other.data_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(read_only_, other.read_only_);
  std::swap(populated_bytes_, other.populated_bytes_);
  std::swap(large_page_bytes_, other.large_page_bytes_);
  std::swap(maker_, other.maker_);
  std::swap(existing_, other.existing_);
  std::swap(sealed_, other.sealed_);
  return *this;
}

Region::~Region() {
  if (data_ != nullptr) {
    // The addresses stay reserved: nothing else may land where pointers into the region still lead.
    REFRACT_CHECK(::mmap(data_, spec_.bytes, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED);
  }
  if (maker_ != 0 && maker_ == ::getpid() && populated_bytes_ < spec_.bytes) {
    (void)::unlink(region_path(spec_.backing, spec_.id).c_str());
  }
}

Reported<> Region::make_memory() {
  const bool is_huge = spec_.backing.kind == BackingKind::kHugetlb;
  Reported<> room = is_huge ? check_huge_pages(spec_.bytes, spec_.system)
                            : check_room(spec_.bytes, spec_.headroom_bytes, spec_.system);
  if (!room) return room;
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (is_huge ? MFD_HUGETLB | kPagesOf2MiB : 0U);
  const std::string label = fmt::format("refract-region-{:03}", spec_.id);
  descriptor_ = Descriptor(::memfd_create(label.c_str(), flags | kNoExecutableSeal));
  if (!descriptor_ && errno == EINVAL) descriptor_ = Descriptor(::memfd_create(label.c_str(), flags));
  if (!descriptor_) {
    return report(
        Code::kSystem, fmt::format("cannot make a {} region: {}", to_uri(spec_.backing), errno_text(errno)),
        errno == EMFILE ? "raise the number of open files: ulimit -n 4096"
                        : "allow memfd_create in the sandbox (seccomp), or use file: (--memory-backing)");
  }
  if (::ftruncate(descriptor_.get(), static_cast<off_t>(spec_.bytes)) != 0) {
    return report(Code::kNoSpace,
                  fmt::format("cannot give {} to {}: {}", bytes_text(spec_.bytes), name(), errno_text(errno)),
                  kLowerLimit);
  }
  return {};
}

Reported<> Region::open_file() {
  const std::string path = region_path(spec_.backing, spec_.id);
  struct stat folder{};
  if (::stat(spec_.backing.folder.c_str(), &folder) != 0 || !S_ISDIR(folder.st_mode)) {
    return report(Code::kInvalidArgument, fmt::format("there is no folder {}", spec_.backing.folder),
                  fmt::format("make it: mkdir -m 700 -p {}", spec_.backing.folder));
  }
  descriptor_ = open_retrying(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  if (!descriptor_) {
    return report(errno == EACCES ? Code::kAccessDenied : Code::kSystem,
                  fmt::format("cannot open {}: {}", path, errno_text(errno)),
                  "run as the user who owns the folder, or choose another one (--memory-backing)");
  }
  if (::flock(descriptor_.get(), LOCK_EX | LOCK_NB) != 0) {
    return report(Code::kInUse, fmt::format("{} belongs to a running node", path),
                  "stop that node, or choose another folder (--memory-backing)");
  }
  struct stat status{};
  REFRACT_CHECK(::fstat(descriptor_.get(), &status) == 0);
  if (!S_ISREG(status.st_mode))
    return report(Code::kInvalidArgument, fmt::format("{} is not a plain file", path));
  // An empty file is one that we, or a node that died at this very point, have just made.
  existing_ = status.st_size != 0;
  if (existing_) return check_file();
  maker_ = ::getpid();
  if (Reported<> room = check_file_room(spec_.backing.folder, spec_.bytes, spec_); !room) return room;
  if (::fchmod(descriptor_.get(), 0600) != 0 ||
      ::ftruncate(descriptor_.get(), static_cast<off_t>(spec_.bytes)) != 0) {
    return report(errno == EPERM ? Code::kAccessDenied : Code::kNoSpace,
                  fmt::format("cannot give {} to {}: {}", bytes_text(spec_.bytes), path, errno_text(errno)),
                  kLowerLimit);
  }
  return {};
}

Reported<> Region::check_file() {
  const std::string path = region_path(spec_.backing, spec_.id);
  struct stat status{};
  REFRACT_CHECK(::fstat(descriptor_.get(), &status) == 0);
  if (static_cast<uint64_t>(status.st_size) != spec_.bytes) {
    return report(Code::kCorrupt,
                  fmt::format("{} has {} B, but the region has {} B", path, status.st_size, spec_.bytes),
                  "move the file away, or set the sizes under which it was made");
  }
  // A process that may write to the file may also truncate it, and that kills each process that has it
  // mapped.
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return report(Code::kAccessDenied, fmt::format("others than its owner may write to {}", path),
                  fmt::format("run 'chmod 600 {}' if you trust what it holds", path));
  }
  if (spec_.accept_existing) {
    std::array<std::byte, 4096> start{};
    const ssize_t got = ::pread(descriptor_.get(), start.data(), start.size(), 0);
    if (got != static_cast<ssize_t>(start.size())) {
      return report(Code::kCorrupt,
                    fmt::format("cannot read {}: {}", path, got < 0 ? errno_text(errno) : "too short"));
    }
    if (Reported<> accepted = spec_.accept_existing(start); !accepted) return accepted;
  }
  const uint64_t held = static_cast<uint64_t>(status.st_blocks) * 512;
  return check_file_room(spec_.backing.folder, spec_.bytes - std::min(held, spec_.bytes), spec_);
}

Reported<bool> Region::populate_some(uint64_t bytes_max) {
  const uint64_t page = page_bytes(spec_.backing);
  const uint64_t step =
      std::min(std::max(bytes_max / page, uint64_t{1}) * page, spec_.bytes - populated_bytes_);
  if (step > 0) {
    if (Reported<> taken = take_memory(populated_bytes_, step); !taken) return report(taken.error());
    populated_bytes_ += step;
  }
  return populated_bytes_ == spec_.bytes;
}

Reported<> Region::populate() {
  static constexpr uint64_t kStepBytes = 64ULL << 20;
  for (;;) {
    const Reported<bool> done = populate_some(kStepBytes);
    if (!done) return report(done.error());
    if (*done) return {};
  }
}

Reported<> Region::take_memory(uint64_t from, uint64_t bytes) {
  int cause = 0;
  if (spec_.backing.kind == BackingKind::kMemfd) {
    large_page_bytes_ += take_large_pages(descriptor_.get(), from, data_ + from, bytes);
  }
  // Reserves first, so that no later store can meet a full file system: that would be a SIGBUS.
  do {
    cause = ::fallocate(descriptor_.get(), 0, static_cast<off_t>(from), static_cast<off_t>(bytes)) == 0
                ? 0
                : errno;
  } while (cause == EINTR);
  // What fallocate() took of a memory file is there, and its users fill page tables of their own.
  if (cause == 0 && spec_.backing.kind == BackingKind::kMemfd) return {};
  // A disk's file must not become dirty as a whole only because it is opened again.
  const int advice = existing_ ? MADV_POPULATE_READ : MADV_POPULATE_WRITE;
  while (cause == 0 && ::madvise(data_ + from, bytes, advice) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno != EINVAL) cause = errno;
    if (errno == EINVAL) touch(data_ + from, bytes);
    break;
  }
  if (cause == 0) {
    if (spec_.backing.kind == BackingKind::kHugetlb) large_page_bytes_ += bytes;
    return {};
  }
  const std::string what =
      fmt::format("cannot take {} for {}: {}", bytes_text(bytes), name(), errno_text(cause));
  if (cause == EOPNOTSUPP) {
    return report(Code::kUnsupported, what,
                  "choose a folder on ext4, xfs, btrfs or tmpfs (--memory-backing)");
  }
  switch (spec_.backing.kind) {
    case BackingKind::kHugetlb:
      return report(Code::kNoSpace, what, set_aside_command(spec_.bytes, huge_pages(spec_.system)));
    case BackingKind::kFile:
      return report(Code::kNoSpace, what,
                    fmt::format("{}, or make room in {} (on a tmpfs: mount -o remount,size=SIZE {})",
                                kLowerLimit, spec_.backing.folder, spec_.backing.folder));
    case BackingKind::kMemfd:
      break;
  }
  return report(Code::kNoSpace, what, fmt::format("{}, or free memory on this machine", kLowerLimit));
}

Reported<> Region::seal() {
  REFRACT_CHECK(populated_bytes_ == spec_.bytes);
  if (sealed_) return {};
  if (spec_.backing.kind != BackingKind::kFile) {
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
    if (::fcntl(descriptor_.get(), F_ADD_SEALS, seals) != 0) {
      return report(Code::kUnsupported, fmt::format("cannot seal {}: {}", name(), errno_text(errno)),
                    "use a kernel from 5.1 on, or file: (--memory-backing)");
    }
  }
  sealed_ = true;
  return {};
}

Reported<> Region::sync() const {
  if (spec_.backing.kind != BackingKind::kFile) return {};
  // Stores through mappings are in the file's pages, and go to the disk with them.
  int cause = EINTR;
  while (cause == EINTR) cause = ::fsync(descriptor_.get()) == 0 ? 0 : errno;
  if (cause == 0) return {};
  return report(Code::kSystem, fmt::format("cannot bring {} to the disk: {}", name(), errno_text(cause)),
                cause == EIO ? "the disk fails: see dmesg, and replace it" : "make room on that file system");
}

Region::FileIdentity Region::file() const noexcept {
  struct stat status{};
  if (spec_.backing.kind != BackingKind::kFile || ::fstat(descriptor_.get(), &status) != 0) return {};
  return {.device = static_cast<uint64_t>(status.st_dev), .inode = static_cast<uint64_t>(status.st_ino)};
}

Reported<int> Region::read_descriptor() const {
  if (read_only_) return read_only_.get();
  if (sealed_ && spec_.backing.kind != BackingKind::kFile) return descriptor_.get();
  return report(Code::kAccessDenied,
                fmt::format("cannot open {} read-only for others before it is sealed", name()),
                "mount /proc: mount -t proc proc /proc");
}

std::string Region::name() const {
  if (spec_.backing.kind == BackingKind::kFile) return region_path(spec_.backing, spec_.id);
  return fmt::format("{}region-{:03}", to_uri(spec_.backing), spec_.id);
}

}  // namespace refract
