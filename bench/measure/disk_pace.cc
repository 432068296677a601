// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/disk_pace.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "bench/measure/measure.h"

#include "refract/base/units.h"
#include "refract/memory/host/descriptor.h"

namespace refract::bench {
namespace {

constexpr uint64_t kPieceBytes = kMiB;

std::unexpected<Report> failed_at(const char* what, const std::string& path) {
  return report(Code::kSystem, fmt::format("cannot {} {}: {}", what, path, errno_text(errno)));
}

Reported<> forget(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::fsync(file.get()) != 0) return failed_at("sync", path);
  if (const int error = ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED); error != 0) {
    errno = error;
    return failed_at("forget", path);
  }
  return {};
}

double rate_of(uint64_t bytes, uint64_t begun_ns) {
  return static_cast<double>(bytes) * 1e9 / static_cast<double>(now_ns() - begun_ns);
}

}  // namespace

Reported<double> disk_write_rate(const std::string& folder, uint64_t bytes) {
  const std::string path = folder + "/pace";
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file) return failed_at("make", path);
  const std::vector<std::byte> piece(kPieceBytes, std::byte{0x5a});
  const uint64_t begun_ns = now_ns();
  for (uint64_t written = 0; written < bytes;) {
    const ssize_t now = ::write(file.get(), piece.data(), std::min(piece.size(), bytes - written));
    if (now <= 0) return failed_at("write", path);
    written += static_cast<uint64_t>(now);
  }
  if (::fdatasync(file.get()) != 0) return failed_at("sync", path);
  const double rate = rate_of(bytes, begun_ns);
  ::unlink(path.c_str());
  return rate;
}

Reported<double> disk_read_rate(const std::string& path) {
  if (const Reported<> forgotten = forget(path); !forgotten) return report(forgotten.error());
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return failed_at("open", path);
  std::vector<std::byte> piece(kPieceBytes);
  uint64_t bytes = 0;
  const uint64_t begun_ns = now_ns();
  while (true) {
    const ssize_t now = ::read(file.get(), piece.data(), piece.size());
    if (now < 0) return failed_at("read", path);
    if (now == 0) return rate_of(bytes, begun_ns);
    bytes += static_cast<uint64_t>(now);
  }
}

Reported<> forget_files(const std::string& folder) {
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    if (!file.is_regular_file()) continue;
    if (const Reported<> forgotten = forget(file.path()); !forgotten) return forgotten;
  }
  if (error) return report(Code::kSystem, fmt::format("cannot list {}: {}", folder, error.message()));
  return {};
}

}  // namespace refract::bench
