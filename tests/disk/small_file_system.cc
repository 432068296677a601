// SPDX-License-Identifier: Apache-2.0
#include "tests/disk/small_file_system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <vector>

#include "refract/base/check.h"
#include "refract/base/report.h"

namespace refract::test {
namespace {

bool write_line(const char* path, const std::string& line) {
  const int file = ::open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t written = ::write(file, line.data(), line.size());
  (void)::close(file);
  return written == static_cast<ssize_t>(line.size());
}

// Root has the right; others have it in a user namespace, where the system lets them make one.
std::string enter() {
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  const int spaces = CLONE_NEWNS | (user == 0 ? 0 : CLONE_NEWUSER);
  if (::unshare(spaces) != 0) return "no process may make a mount namespace here: " + errno_text(errno);
  if (user != 0) {
    const bool is_mapped = write_line("/proc/self/setgroups", "deny") &&
                           write_line("/proc/self/uid_map", fmt::format("{0} {0} 1", user)) &&
                           write_line("/proc/self/gid_map", fmt::format("{0} {0} 1", group));
    if (!is_mapped) return "no process may map its user in a user namespace here";
  }
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return "nothing can be mounted here: " + errno_text(errno);
  }
  return {};
}

constexpr uint64_t kDeviceBytes = uint64_t{400} << 20;
constexpr uint64_t kImageBytes = uint64_t{1} << 30;

bool runs(const std::string& command) {
  return std::system((command + " > /dev/null 2>&1").c_str()) == 0;
}

}  // namespace

std::string enter_mount_namespace() {
  static const std::string missing = enter();
  return missing;
}

SmallFileSystem::SmallFileSystem(uint64_t bytes) : path_(folder_.path() + "/disk") {
  REFRACT_CHECK(::mkdir(path_.c_str(), 0700) == 0);
  const std::string size = fmt::format("size={},mode=700", bytes);
  REFRACT_CHECK(::mount("tmpfs", path_.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, size.c_str()) == 0);
}

SmallFileSystem::~SmallFileSystem() {
  (void)::umount2(path_.c_str(), MNT_DETACH);
}

void SmallFileSystem::resize(uint64_t bytes) const {
  const std::string size = fmt::format("size={}", bytes);
  REFRACT_CHECK(::mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT | MS_NOSUID | MS_NODEV, size.c_str()) ==
                0);
}

void SmallFileSystem::fill() const {
  const int file = ::open(ballast().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  REFRACT_CHECK(file >= 0);
  const std::vector<char> bytes(size_t{1} << 20);
  while (::write(file, bytes.data(), bytes.size()) > 0) {
  }
  const bool is_full = errno == ENOSPC;
  (void)::close(file);
  REFRACT_CHECK(is_full);
}

void SmallFileSystem::empty() const {
  (void)::unlink(ballast().c_str());
}

ThinFileSystem::ThinFileSystem() : path_(folder_.path() + "/thin"), device_(kDeviceBytes) {
  REFRACT_CHECK(::mkdir(path_.c_str(), 0700) == 0);
}

std::unique_ptr<ThinFileSystem> ThinFileSystem::make(std::string& missing) {
  missing = ::geteuid() == 0 ? enter_mount_namespace() : "only root mounts a device";
  if (!missing.empty()) return nullptr;
  std::unique_ptr<ThinFileSystem> made(new ThinFileSystem);
  const std::string image = made->device_.path() + "/image";
  // Without a journal: a failure of its device is to be one of the files, and not of everything.
  const std::string format = "mkfs.ext4 -q -F -O ^has_journal -E lazy_itable_init=1,nodiscard " + image;
  if (!runs(fmt::format("truncate -s {} {}", kImageBytes, image)) || !runs(format)) {
    missing = "there is no mkfs.ext4 (e2fsprogs)";
  } else if (!runs(fmt::format("mount -o loop,errors=continue {} {}", image, made->path_))) {
    missing = "this machine mounts no image (loop devices, ext4)";
  }
  if (!missing.empty()) return nullptr;
  return made;
}

ThinFileSystem::~ThinFileSystem() {
  (void)::umount2(path_.c_str(), MNT_DETACH);
}

}  // namespace refract::test
