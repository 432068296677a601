// SPDX-License-Identifier: Apache-2.0
#include "refract/storage/posix_disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "refract/memory/host/descriptor.h"

namespace refract::storage {
namespace {

// A single call moves at most this much, so that none is cut short by the kernel's limit of 2 GiB.
constexpr uint64_t kCallBytesMax = uint64_t{1} << 30;
// A kernel that does not preempt itself copies one call's bytes before it lets a thread run that was woken
// meanwhile on this CPU: a server, say, beside a snapshot. So long it waits at most: some 20 us.
constexpr uint64_t kWriteBytesMax = uint64_t{64} << 10;

class PosixFile final : public File {
 public:
  PosixFile(Descriptor descriptor, std::string path) noexcept
      : descriptor_(std::move(descriptor)), path_(std::move(path)) {}

  [[nodiscard]] Reported<> write(uint64_t offset, std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const size_t piece = std::min<uint64_t>(bytes.size(), kWriteBytesMax);
      const ssize_t done = ::pwrite(descriptor_.get(), bytes.data(), piece, static_cast<off_t>(offset));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return failed(errno, "write to");
      bytes = bytes.subspan(static_cast<size_t>(done));
      offset += static_cast<uint64_t>(done);
    }
    return {};
  }

  [[nodiscard]] Reported<uint64_t> read(uint64_t offset, std::span<std::byte> bytes) override {
    uint64_t total = 0;
    while (total < bytes.size()) {
      const size_t piece = std::min<uint64_t>(bytes.size() - total, kCallBytesMax);
      const ssize_t done =
          ::pread(descriptor_.get(), bytes.data() + total, piece, static_cast<off_t>(offset + total));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return failed(errno, "read");
      if (done == 0) break;
      total += static_cast<uint64_t>(done);
    }
    return total;
  }

  [[nodiscard]] Reported<> sync() override {
    // Not repeated after EINTR or anything else: whether the pages are still dirty then is unknown (D2).
    if (::fdatasync(descriptor_.get()) != 0) return failed(errno, "bring to the disk");
    return {};
  }

  [[nodiscard]] Reported<> allocate(uint64_t bytes) override {
    int error = EINTR;
    while (error == EINTR) error = ::posix_fallocate(descriptor_.get(), 0, static_cast<off_t>(bytes));
    if (error != 0) return failed(error, fmt::format("take {} bytes for", bytes));
    return {};
  }

  [[nodiscard]] Reported<> truncate(uint64_t bytes) override {
    if (::ftruncate(descriptor_.get(), static_cast<off_t>(bytes)) != 0) {
      return failed(errno, "cut");
    }
    return {};
  }

  [[nodiscard]] Reported<uint64_t> bytes() override {
    struct stat facts = {};
    if (::fstat(descriptor_.get(), &facts) != 0) return failed(errno, "look at");
    return static_cast<uint64_t>(facts.st_size);
  }

  void start_writeback(uint64_t offset, uint64_t bytes) override {
    (void)::sync_file_range(descriptor_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes),
                            SYNC_FILE_RANGE_WRITE);
  }

  [[nodiscard]] Reported<> finish_writeback(uint64_t offset, uint64_t bytes) override {
    const int done = ::sync_file_range(descriptor_.get(), static_cast<off_t>(offset),
                                       static_cast<off_t>(bytes), SYNC_FILE_RANGE_WAIT_BEFORE);
    // What cannot wait for a part of a file waits for all of it in sync().
    if (done == 0 || errno == EINVAL || errno == ENOSYS || errno == ESPIPE || errno == EINTR) return {};
    return report_errno(errno, "bring to the disk", path_);
  }

  void drop_cached(uint64_t offset, uint64_t bytes) override {
    (void)::posix_fadvise(descriptor_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes),
                          POSIX_FADV_DONTNEED);
  }

 private:
  // With the name that the file has by now.
  [[nodiscard]] std::unexpected<Report> failed(int error, std::string_view what) const {
    std::error_code unknown;
    const std::filesystem::path now =
        std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", descriptor_.get()), unknown);
    return report_errno(error, what, unknown ? path_ : now.string());
  }

  Descriptor descriptor_;
  std::string path_;  // When it was opened.
};

class PosixLock final : public Lock {
 public:
  PosixLock(Descriptor file, Descriptor folder) noexcept
      : file_(std::move(file)), folder_(std::move(folder)) {}

 private:
  Descriptor file_;
  Descriptor folder_;
};

class PosixDisk final : public Disk {
 public:
  PosixDisk(Descriptor folder, std::string path) noexcept
      : folder_(std::move(folder)), path_(std::move(path)) {}

  [[nodiscard]] Reported<std::unique_ptr<File>> open(std::string_view name, OpenMode mode) override {
    int flags = O_CLOEXEC | O_NOFOLLOW;
    flags |= mode == OpenMode::kRead ? O_RDONLY : O_RDWR;
    if (mode == OpenMode::kCreate) flags |= O_CREAT | O_EXCL;
    Descriptor descriptor(::openat(folder_.get(), std::string(name).c_str(), flags, 0600));
    if (!descriptor) return report_errno(errno, mode == OpenMode::kCreate ? "make" : "open", path_of(name));
    return std::make_unique<PosixFile>(std::move(descriptor), path_of(name));
  }

  [[nodiscard]] Reported<> rename(std::string_view from, std::string_view to) override {
    const int folder = folder_.get();
    if (::renameat(folder, std::string(from).c_str(), folder, std::string(to).c_str()) == 0) return {};
    return report_errno(errno, fmt::format("rename to '{}' the file", to), path_of(from));
  }

  [[nodiscard]] Reported<> remove(std::string_view name) override {
    if (::unlinkat(folder_.get(), std::string(name).c_str(), 0) == 0) return {};
    return report_errno(errno, "remove", path_of(name));
  }

  [[nodiscard]] Reported<> sync_folder() override {
    if (::fsync(folder_.get()) == 0) return {};
    return report_errno(errno, "bring to the disk the folder", path_);
  }

  [[nodiscard]] Reported<std::vector<std::string>> list() override {
    // A descriptor of its own, for reading moves a position that two threads would share.
    const int number = ::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* const folder = number < 0 ? nullptr : ::fdopendir(number);
    if (folder == nullptr) {
      const int error = errno;
      if (number >= 0) ::close(number);
      return report_errno(error, "list", path_);
    }
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* const entry = ::readdir(folder)) {
      if (entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN) names.emplace_back(entry->d_name);
    }
    const int error = errno;
    ::closedir(folder);
    if (error != 0) return report_errno(error, "list", path_);
    std::erase_if(names, [](const std::string& name) { return name == "." || name == ".."; });
    std::ranges::sort(names);
    return names;
  }

  [[nodiscard]] Reported<std::unique_ptr<Lock>> lock(std::string_view name) override {
    Descriptor descriptor(
        ::openat(folder_.get(), std::string(name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!descriptor) return report_errno(errno, "open", path_of(name));
    // flock belongs to the open file, not to the process: a second opening in this process is refused, too.
    const bool is_locked = ::flock(descriptor.get(), LOCK_EX | LOCK_NB) == 0;
    if (!is_locked && errno != EWOULDBLOCK) return report_errno(errno, "lock", path_of(name));
    // The folder itself, too: the file may have been removed, and another one is there now. Where folders
    // cannot be locked, the file has to do.
    Descriptor folder(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const bool is_folder_taken =
        folder && ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (is_locked && !is_folder_taken) {
      return std::make_unique<PosixLock>(std::move(descriptor), std::move(folder));
    }
    return report(Code::kInUse, fmt::format("another process uses the folder {}", path_),
                  "stop it, or choose another folder");
  }

  [[nodiscard]] std::string path_of(std::string_view name) const override {
    return fmt::format("{}/{}", path_, name);
  }

 private:
  Descriptor folder_;
  std::string path_;
};

}  // namespace

std::unexpected<Report> report_errno(int error, std::string_view what, std::string_view path) {
  const std::string sentence = fmt::format("cannot {} {}: {}", what, path, errno_text(error));
  switch (error) {
    case ENOENT:
      return report(Code::kNotFound, sentence, "look whether the path is right");
    case EEXIST:
      return report(Code::kExists, sentence);
    case ENOSPC:
      return report(Code::kNoSpace, sentence, "make room on that file system (df -h, df -i)");
    case EDQUOT:
      return report(Code::kNoSpace, sentence, "raise the quota of the node's user (quota -s)");
    case EFBIG:
      return report(Code::kNoSpace, sentence, "raise the limit of file sizes (ulimit -f)");
    case EACCES:
    case EPERM:
      return report(Code::kAccessDenied, sentence,
                    fmt::format("the folder must be writable by user {}", ::geteuid()));
    case EROFS:
      return report(
          Code::kAccessDenied, sentence,
          "the file system is mounted read-only; after an error of the disk the kernel does that by "
          "itself (dmesg)");
    case EIO:
      return report(Code::kSystem, sentence, "the disk fails: see dmesg, and replace it");
    case EMFILE:
    case ENFILE:
      return report(Code::kSystem, sentence, "raise the limit of open files (ulimit -n)");
    case ELOOP:
      return report(Code::kAccessDenied, sentence, "a symbolic link stands there; put the file itself there");
    default:
      return report(Code::kSystem, sentence);
  }
}

Reported<std::unique_ptr<Disk>> open_existing_posix_disk(const std::string& folder) {
  Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor) return report_errno(errno, "open the folder", folder);
  return std::make_unique<PosixDisk>(std::move(descriptor), folder);
}

Reported<std::unique_ptr<Disk>> open_posix_disk(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return report_errno(errno, "make the folder", folder);
  }
  return open_existing_posix_disk(folder);
}

}  // namespace refract::storage
