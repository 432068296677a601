// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/tcp/secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "refract/base/units.h"
#include "refract/memory/host/descriptor.h"

namespace refract::fabric::tcp {
namespace {

constexpr const char* kHowToMake =
    "make one with: (umask 077 && head -c 32 /dev/urandom | base64 > FILE), and copy it to both sides";

// Bytes that are wiped whatever way the function ends.
struct Wiped {
  std::array<std::byte, kSecretBytesMax + 2> bytes;
  Wiped() = default;
  Wiped(const Wiped&) = delete;
  Wiped& operator=(const Wiped&) = delete;
  ~Wiped() { OPENSSL_cleanse(bytes.data(), bytes.size()); }
};

Reported<> check_file(int fd, const std::string& path) {
  struct stat found{};
  if (::fstat(fd, &found) != 0) {
    return report(Code::kSystem, fmt::format("cannot look at secret file {}: {}", path, errno_text(errno)));
  }
  if (!S_ISREG(found.st_mode)) {
    return report(Code::kInvalidArgument, fmt::format("secret file {} is not a regular file", path),
                  kHowToMake);
  }
  if ((found.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return report(Code::kInvalidArgument,
                  fmt::format("secret file {} can be reached by others than its owner (mode {:04o})", path,
                              found.st_mode & 07777),
                  fmt::format("run: chmod 600 {}", path));
  }
  return {};
}

}  // namespace

Secret::~Secret() {
  if (memory_ == nullptr) return;
  OPENSSL_cleanse(memory_, kPageBytes);
  ::munmap(memory_, kPageBytes);
}

Reported<Secret> Secret::copy_of(std::span<const std::byte> bytes) {
  if (bytes.size() < kSecretBytesMin || bytes.size() > kSecretBytesMax) {
    return report(Code::kInvalidArgument,
                  fmt::format("a secret has {} to {} bytes, this one {}{}", kSecretBytesMin, kSecretBytesMax,
                              bytes.size() > kSecretBytesMax ? "more than " : "",
                              std::min(bytes.size(), kSecretBytesMax)),
                  kHowToMake);
  }
  void* const page = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    return report(Code::kSystem, fmt::format("no memory for a secret: {}", errno_text(errno)));
  }
  // Not in core dumps. Not in swap either, where the limit on locked memory allows; without it, no error.
  const bool hidden = ::madvise(page, kPageBytes, MADV_DONTDUMP) == 0;
  const int error_number = errno;
  (void)::mlock(page, kPageBytes);
  Secret secret;
  secret.memory_ = static_cast<std::byte*>(page);
  if (!hidden) {
    return report(Code::kSystem,
                  fmt::format("cannot keep a secret out of core dumps: {}", errno_text(error_number)));
  }
  secret.bytes_ = bytes.size();
  std::memcpy(secret.memory_, bytes.data(), bytes.size());
  return secret;
}

Reported<Secret> read_secret(const std::string& path) {
  // Not blocking, so that a FIFO does not hold us up before it is refused.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) {
    return report(errno == ENOENT ? Code::kNotFound : Code::kSystem,
                  fmt::format("cannot open secret file {}: {}", path, errno_text(errno)), kHowToMake);
  }
  if (auto checked = check_file(file.get(), path); !checked) return report(checked.error());
  Wiped buffer;
  size_t have = 0;
  while (have < buffer.bytes.size()) {
    const ssize_t got = ::read(file.get(), buffer.bytes.data() + have, buffer.bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return report(Code::kSystem, fmt::format("cannot read secret file {}: {}", path, errno_text(errno)));
    }
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  if (have > 0 && buffer.bytes[have - 1] == std::byte{'\n'}) --have;
  auto secret = Secret::copy_of(std::span(buffer.bytes).first(have));
  if (!secret) {
    return report(secret.error().code, fmt::format("secret file {}: {}", path, secret.error().what),
                  secret.error().next);
  }
  return secret;
}

}  // namespace refract::fabric::tcp
