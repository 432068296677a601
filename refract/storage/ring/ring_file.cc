// SPDX-License-Identifier: Apache-2.0
#include "refract/storage/ring/ring_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "refract/base/units.h"
#include "refract/storage/posix_disk.h"

namespace refract::storage {
namespace {

// Not in every linux/magic.h.
constexpr uint64_t kXfs = 0x58465342;

// How long and whose a file is; all zero where the kernel does not say.
[[nodiscard]] struct stat facts_of(int file) noexcept {
  struct stat facts = {};
  (void)::fstat(file, &facts);
  return facts;
}

[[nodiscard]] bool read_header(int file, RingHeader& header) noexcept {
  return ::pread(file, &header, sizeof(header), 0) == static_cast<ssize_t>(sizeof(header));
}

[[nodiscard]] bool is_sound(const RingHeader& header) noexcept {
  return header.magic == kRingMagic && header.version == kRingVersion &&
         header.checksum == checksum_of(header) && header.ring_bytes % kRingHeaderBytes == 0 &&
         header.ring_bytes >= kRingBytesMin;
}

[[nodiscard]] std::string aside(const std::string& name) {
  return name + ".new";
}

[[nodiscard]] Reported<> write_at(const RingFile& file, uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(file.descriptor(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return report_errno(errno, "write to", file.path());
    bytes = bytes.subspan(static_cast<size_t>(done));
    offset += static_cast<uint64_t>(done);
  }
  return {};
}

}  // namespace

std::string ring_name(uint32_t shard) {
  return fmt::format("ring-{:03}", shard);
}

// Those that write where the blocks are. What copies on each write (btrfs, zfs, bcachefs, f2fs) takes room
// for it, and what asks a server or a program (nfs, smb, fuse, 9p) may be refused; either ends the storing
// process.
bool keeps_mapped_stores(uint64_t file_system) noexcept {
  switch (file_system) {
    case EXT4_SUPER_MAGIC:  // And ext2, and ext3.
    case kXfs:
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:  // As what lies below; a keeper learns of the others when a server has died.
      return true;
    default:
      return false;
  }
}

Reported<RingFolder> RingFolder::open(const std::string& path) {
  RingFolder folder;
  folder.folder_ = Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.folder_) return report_errno(errno, "open the folder", path);
  folder.path_ = path;
  while (folder.path_.size() > 1 && folder.path_.ends_with('/')) folder.path_.pop_back();
  const struct stat facts = facts_of(folder.folder_.get());
  folder.device_ = facts.st_dev;
  folder.inode_ = facts.st_ino;
  folder.owner_ = facts.st_uid;
  return folder;
}

bool RingFolder::keeps_rings() const noexcept {
  struct statfs facts = {};
  return ::fstatfs(folder_.get(), &facts) == 0 && keeps_mapped_stores(static_cast<uint64_t>(facts.f_type));
}

std::string RingFolder::path_of(const std::string& name) const {
  return fmt::format("{}/{}", path_, name);
}

RingHome RingFolder::home_of(uint64_t file_inode) const noexcept {
  return {.device = device_, .folder_inode = inode_, .file_inode = file_inode};
}

Reported<RingFile> RingFile::open_named(const RingFolder& folder, const RingIdentity& identity, int flags) {
  RingFile ring;
  const std::string name = ring_name(identity.shard);
  ring.path_ = folder.path_of(name);
  ring.identity_ = identity;
  ring.is_writable_ = (flags & O_RDWR) != 0;
  // Not to wait for the other end of a pipe.
  ring.file_ =
      Descriptor(::openat(folder.descriptor(), name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!ring.file_) return report_errno(errno, "open", ring.path_);
  return ring;
}

Reported<> RingFile::hold() const {
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) return {};
  if (errno != EWOULDBLOCK) return report_errno(errno, "lock", path_);
  return report(Code::kInUse, fmt::format("another process uses {}", path_),
                "stop it, or choose another folder");
}

// (F3) Whether it is what the page says; the bytes came from a file, and are anything.
Reported<> RingFile::check(const RingFolder& folder) {
  const struct stat facts = facts_of(file_.get());
  if (!S_ISREG(facts.st_mode)) return report(Code::kCorrupt, fmt::format("{} is no file", path_));
  if (facts.st_uid != ::geteuid() && facts.st_uid != folder.owner()) {
    return report(Code::kAccessDenied,
                  fmt::format("{} belongs to user {}, who may have written to it", path_, facts.st_uid),
                  fmt::format("if it is the node's, say so: chown {} {}", folder.owner(), path_));
  }
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return report(Code::kAccessDenied, fmt::format("others may write to {}", path_),
                  fmt::format("if it is the node's, say so: chmod 600 {}", path_));
  }
  RingHeader header = {};
  if (!read_header(file_.get(), header) || header.magic != kRingMagic) {
    return report(Code::kCorrupt, fmt::format("{} is no ring of a log", path_));
  }
  if (header.version != kRingVersion) {
    return report(
        Code::kUnsupported,
        fmt::format("{} has version {} of the ring; this program knows {}", path_, header.version,
                    kRingVersion),
        "stop the node with the program that wrote it, which empties the ring, then start this one");
  }
  if (!is_sound(header)) return report(Code::kCorrupt, fmt::format("the header of {} is damaged", path_));
  if (header.ring_bytes + kRingHeaderBytes != static_cast<uint64_t>(facts.st_size)) {
    return report(Code::kCorrupt, fmt::format("{} has {} bytes, and was made with {}", path_, facts.st_size,
                                              header.ring_bytes + kRingHeaderBytes));
  }
  if (header.store != identity_.store || header.shard != identity_.shard || header.boot != identity_.boot ||
      (identity_.number != 0 && header.number != identity_.number)) {
    return report(Code::kCorrupt, fmt::format("{} is not the ring that was in use, but another one", path_));
  }
  if (header.is_in_use == 0 && header.failure != 0) {
    return report(Code::kCorrupt, fmt::format("what {} held is lost", path_));
  }
  ring_bytes_ = header.ring_bytes;
  is_copy_ = header.home != folder.home_of(facts.st_ino);
  if (is_copy_ && facts.st_nlink > 1) {
    return report(Code::kInUse, fmt::format("{} is a hard link to a file of another folder", path_),
                  "make a copy with bytes of its own: cp -a, not cp -al");
  }
  return {};
}

Reported<RingFile> RingFile::take_up(const RingFolder& folder, const RingIdentity& identity) {
  Reported<RingFile> ring = open_named(folder, identity, O_RDWR);
  if (!ring) return ring;
  if (Reported<> held = ring->hold(); !held) return report(held.error());
  if (Reported<> checked = ring->check(folder); !checked) return report(checked.error());
  if (!ring->is_copy()) return ring;
  const RingHome home = folder.home_of(facts_of(ring->descriptor()).st_ino);
  const Reported<> moved = write_at(*ring, offsetof(RingHeader, home), std::as_bytes(std::span(&home, 1)));
  if (!moved) return report(moved.error());
  return ring;
}

Reported<RingFile> RingFile::look(const RingFolder& folder, const RingIdentity& identity) {
  Reported<RingFile> ring = open_named(folder, identity, O_RDONLY);
  if (!ring) return ring;
  if (Reported<> checked = ring->check(folder); !checked) return report(checked.error());
  return ring;
}

Reported<> RingFile::write_header(const RingHome& home) const {
  RingHeader header = {};
  header.magic = kRingMagic;
  header.version = kRingVersion;
  header.shard = identity_.shard;
  header.store = identity_.store;
  header.boot = identity_.boot;
  header.ring_bytes = ring_bytes_;
  header.number = identity_.number;
  header.checksum = checksum_of(header);
  header.home = home;
  return write_at(*this, 0, std::as_bytes(std::span(&header, 1)));
}

// All blocks, and written: what is merely set aside for a file may still want room when it is first written.
Reported<> RingFile::write_blocks() const {
  const uint64_t end = kRingHeaderBytes + ring_bytes_;
  int error = EINTR;
  while (error == EINTR) error = ::posix_fallocate(file_.get(), 0, static_cast<off_t>(end));
  if (error != 0) return report_errno(error, fmt::format("take {} bytes for", end), path_);
  const std::vector<std::byte> zeros(kMiB);
  for (uint64_t at = 0; at < end; at += zeros.size()) {
    const uint64_t bytes = std::min<uint64_t>(zeros.size(), end - at);
    if (Reported<> done = write_at(*this, at, std::span(zeros).first(bytes)); !done) return done;
  }
  // A device that promised more than it has says so here.
  if (::fdatasync(file_.get()) == 0) return {};
  return report_errno(errno, "bring to the disk", path_);
}

// One of ours, of any life: all its blocks are there, and nothing else leads to it.
bool RingFile::can_be_used_again(const RingFolder& folder, uint64_t ring_bytes) const {
  const struct stat facts = facts_of(file_.get());
  RingHeader header = {};
  const uint64_t bytes = ring_bytes + kRingHeaderBytes;
  const bool is_ours = facts.st_uid == ::geteuid() || facts.st_uid == folder.owner();
  return S_ISREG(facts.st_mode) && facts.st_nlink == 1 && is_ours &&
         (facts.st_mode & (S_IRWXG | S_IRWXO)) == 0 && static_cast<uint64_t>(facts.st_size) == bytes &&
         static_cast<uint64_t>(facts.st_blocks) * 512 >= bytes && read_header(file_.get(), header) &&
         is_sound(header) && header.ring_bytes == ring_bytes;
}

Reported<RingFile> RingFile::make(const RingFolder& folder, const RingIdentity& identity,
                                  uint64_t ring_bytes) {
  Reported<RingFile> old = open_named(folder, identity, O_RDWR);
  if (old && S_ISREG(facts_of(old->descriptor()).st_mode)) {
    if (Reported<> held = old->hold(); !held) return report(held.error());
    if (old->can_be_used_again(folder, ring_bytes)) {
      old->ring_bytes_ = ring_bytes;
      const RingHome home = folder.home_of(facts_of(old->descriptor()).st_ino);
      if (Reported<> written = old->write_header(home); !written) return report(written.error());
      return old;
    }
  }
  Reported<RingFile> ring = prepare(folder, identity, ring_bytes);
  if (!ring) return ring;
  if (Reported<> named = ring->take_name(folder); !named) return report(named.error());
  return ring;
}

Reported<RingFile> RingFile::prepare(const RingFolder& folder, const RingIdentity& identity,
                                     uint64_t ring_bytes) {
  RingFile ring;
  const std::string name = ring_name(identity.shard);
  const std::string fresh = aside(name);
  ring.path_ = folder.path_of(name);
  ring.identity_ = identity;
  ring.ring_bytes_ = ring_bytes;
  // What a node left that died while it made one.
  if (::unlinkat(folder.descriptor(), fresh.c_str(), 0) != 0 && errno != ENOENT) {
    return report_errno(errno, "remove", folder.path_of(fresh));
  }
  ring.file_ = Descriptor(
      ::openat(folder.descriptor(), fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!ring.file_) return report_errno(errno, "make", folder.path_of(fresh));
  Reported<> made = ring.hold();
  if (made) made = ring.write_blocks();
  if (made) made = ring.write_header(folder.home_of(facts_of(ring.descriptor()).st_ino));
  if (made) return ring;
  (void)::unlinkat(folder.descriptor(), fresh.c_str(), 0);
  return report(made.error());
}

Reported<> RingFile::take_name(const RingFolder& folder) const {
  const std::string name = ring_name(identity_.shard);
  const int at = folder.descriptor();
  if (::renameat(at, aside(name).c_str(), at, name.c_str()) == 0) return {};  // (F1)
  const int error = errno;
  (void)::unlinkat(at, aside(name).c_str(), 0);
  auto failed = report_errno(error, "put the log's ring in the place of", path_);
  if (error == EISDIR || error == ENOTEMPTY) failed.error().next = fmt::format("mv {0} {0}.other", path_);
  return failed;
}

Reported<RingFile> RingFile::make_in_memory(const RingIdentity& identity, uint64_t ring_bytes) {
  RingFile ring;
  ring.path_ = "the log's ring in memory";
  ring.is_in_folder_ = false;
  ring.identity_ = identity;
  ring.ring_bytes_ = ring_bytes;
  ring.file_ = Descriptor(::memfd_create("refract-ring", MFD_CLOEXEC));
  if (!ring.file_) return report_errno(errno, "make", ring.path_);
  // All of it now: memory that is missing later would end the server.
  const int error = ::posix_fallocate(ring.file_.get(), 0, static_cast<off_t>(kRingHeaderBytes + ring_bytes));
  if (error != 0) return report_errno(error, fmt::format("take {} bytes for", ring_bytes), ring.path_);
  if (Reported<> written = ring.write_header({}); !written) return report(written.error());
  return ring;
}

Reported<> RingFile::say_lost() const {
  constexpr uint64_t kLost = 1;
  return write_at(*this, offsetof(RingHeader, failure), std::as_bytes(std::span(&kLost, 1)));
}

bool RingFile::has_name(const RingFolder& folder) const {
  struct stat named = {};
  const struct stat own = facts_of(file_.get());
  return ::fstatat(folder.descriptor(), ring_name(identity_.shard).c_str(), &named, AT_SYMLINK_NOFOLLOW) ==
             0 &&
         named.st_dev == own.st_dev && named.st_ino == own.st_ino;
}

bool RingFile::is_whole() const {
  RingHeader header = {};
  return static_cast<uint64_t>(facts_of(file_.get()).st_size) == kRingHeaderBytes + ring_bytes_ &&
         read_header(file_.get(), header) && is_sound(header) && header.number == identity_.number;
}

Reported<> RingFile::copy_content(const RingFile& from) const {
  std::vector<std::byte> bytes(kMiB);
  const uint64_t end = kRingHeaderBytes + ring_bytes_;
  // Behind what says whose it is.
  for (uint64_t at = offsetof(RingHeader, failure); at < end;) {
    const uint64_t wanted = std::min<uint64_t>(bytes.size(), end - at);
    const ssize_t got = ::pread(from.descriptor(), bytes.data(), wanted, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return report_errno(got < 0 ? errno : EIO, "read", from.path());
    const auto piece = std::span(bytes).first(static_cast<size_t>(got));
    if (Reported<> done = write_at(*this, at, piece); !done) return done;
    at += piece.size();
  }
  return {};
}

}  // namespace refract::storage
