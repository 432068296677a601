// SPDX-License-Identifier: Apache-2.0
#include "refract/base/testing/processes/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "refract/base/clock.h"
#include "refract/base/testing/needed.h"

namespace refract::test {
namespace {

constexpr uint64_t kLook_ms = 5;

}  // namespace

void sleep_ms(uint64_t milliseconds) {
  const timespec pause{.tv_sec = static_cast<time_t>(milliseconds / 1'000),
                       .tv_nsec = static_cast<long>(milliseconds % 1'000 * 1'000'000)};
  (void)::nanosleep(&pause, nullptr);
}

bool becomes_true(const std::function<bool()>& condition) {
  const uint64_t begun_ns = system_clock().now_ns();
  while (!condition()) {
    if (system_clock().now_ns() - begun_ns > kPatience_ns) return false;
    sleep_ms(kLook_ms);
  }
  return true;
}

TemporaryFolder::TemporaryFolder() : TemporaryFolder(needed(make())) {
  (void)::chmod(path_.c_str(), 0777);
}

Reported<TemporaryFolder> TemporaryFolder::make() {
  std::error_code error;
  std::string path = std::filesystem::temp_directory_path(error).string() + "/refract-test-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) {
    return report(Code::kSystem, "cannot make the folder " + path + ": " + errno_text(errno));
  }
  return TemporaryFolder(std::move(path));
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TemporaryFolder& TemporaryFolder::operator=(TemporaryFolder&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

std::string read_whole(const std::string& path) {
  // No stream: those throw when a process ends while its files in /proc are read.
  std::string text;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  char piece[4096];
  for (ssize_t got = 0; (got = ::read(file, piece, sizeof(piece))) > 0;) {
    text.append(piece, static_cast<size_t>(got));
  }
  (void)::close(file);
  return text;
}

bool write_whole(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return !file.fail();
}

std::string tail_of(const std::string& path) {
  const std::string text = read_whole(path);
  constexpr size_t kTail = 600;
  return text.size() <= kTail ? text : text.substr(text.size() - kTail);
}

}  // namespace refract::test
