// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/shm/descriptors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "refract/base/check.h"

namespace refract::fabric::shm {
namespace {

constexpr int kMadvisePopulateWrite = 23;  // MADV_POPULATE_WRITE: Linux 5.14.
constexpr unsigned kNoExecSeal = 0x0008;   // MFD_NOEXEC_SEAL: Linux 6.3; older headers do not name it.

Report system_failure(std::string_view action) {
  const int error = errno;
  return {Code::kSystem, fmt::format("{}: {}", action, errno_text(error)),
          error == EMFILE || error == ENFILE ? "raise the limit of open files (ulimit -n)" : ""};
}

}  // namespace

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    reset();
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void Mapping::reset() noexcept {
  if (data_ != nullptr) ::munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

Reported<Descriptor> make_memory(const char* name, size_t bytes, size_t taken_bytes) {
  Descriptor memory(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExecSeal));
  if (!memory && errno == EINVAL) memory = Descriptor(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return report(system_failure("cannot make shared memory"));
  int done = ::ftruncate(memory.get(), static_cast<off_t>(bytes));
  while (done == 0 && ::fallocate(memory.get(), 0, 0, static_cast<off_t>(taken_bytes)) != 0) {
    if (errno != EINTR) done = -1;
    if (errno != EINTR) break;
  }
  if (done != 0) return report(system_failure(fmt::format("cannot take {} bytes of shared memory", bytes)));
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return report(system_failure("cannot seal shared memory"));
  }
  return memory;
}

Reported<> finish_seals(int fd, bool forbid_new_writers) {
  const int seals = F_SEAL_SEAL | (forbid_new_writers ? F_SEAL_FUTURE_WRITE : 0);
  if (::fcntl(fd, F_ADD_SEALS, seals) != 0) return report(system_failure("cannot seal shared memory"));
  return {};
}

uint64_t fixed_length(int fd) noexcept {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  constexpr int kLength = F_SEAL_SHRINK | F_SEAL_GROW;
  struct stat status{};
  if (seals < 0 || (seals & kLength) != kLength || ::fstat(fd, &status) != 0) return 0;
  return static_cast<uint64_t>(status.st_size);
}

bool has_fixed_length(int fd, size_t bytes) noexcept {
  return bytes > 0 && fixed_length(fd) == bytes;
}

Reported<Mapping> map_shared(int fd, size_t bytes, bool writable, size_t taken_bytes) {
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  const int populate = taken_bytes == bytes ? MAP_POPULATE : 0;
  void* address = ::mmap(nullptr, bytes, protection, MAP_SHARED | populate, fd, 0);
  if (address == MAP_FAILED) {
    return report(system_failure(fmt::format("cannot map {} bytes of shared memory", bytes)));
  }
  Mapping mapping(static_cast<std::byte*>(address), bytes);
  // A second time over the same pages: older kernels know no other way to fill a part.
  if (taken_bytes != bytes &&
      ::mmap(address, taken_bytes, protection, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0) == MAP_FAILED) {
    return report(system_failure(fmt::format("cannot map {} bytes of shared memory", taken_bytes)));
  }
  (void)::madvise(address, bytes, MADV_DONTDUMP);
  return mapping;
}

bool take_pages(void* address, size_t bytes) noexcept {
  // Where the kernel does not know it, they come in by faults.
  return ::madvise(address, bytes, kMadvisePopulateWrite) == 0 || errno == EINVAL;
}

Reported<Descriptor> read_only_descriptor(int fd) {
  Descriptor reopened(::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_RDONLY | O_CLOEXEC));
  if (reopened) return reopened;
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_FUTURE_WRITE) == 0) {
    return report(Code::kSystem,
                  "cannot reopen shared memory read-only, and it is not sealed against writers",
                  "seal it before it is handed out");
  }
  Descriptor duplicate(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!duplicate) return report(system_failure("cannot duplicate a descriptor"));
  return duplicate;
}

bool send_message(int socket, std::span<const std::byte> message, std::span<const int> descriptors) noexcept {
  REFRACT_CHECK(descriptors.size() <= kDescriptorsMax);
  iovec part{const_cast<std::byte*>(message.data()), message.size()};  // NOLINT: sendmsg reads it only.
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    std::memset(control, 0, header.msg_controllen);
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t sent = -1;
  do {
    sent = ::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(message.size());
}

ReceivedMessage receive_message(int socket, std::span<std::byte> message,
                                std::span<Descriptor> descriptors) noexcept {
  using Outcome = ReceivedMessage::Outcome;
  const size_t wanted = std::min(descriptors.size(), kDescriptorsMax);
  iovec part{message.data(), message.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = wanted > 0 ? control : nullptr;
  header.msg_controllen = wanted > 0 ? CMSG_SPACE(wanted * sizeof(int)) : 0;
  ssize_t got = -1;
  // A peer that closed with our bytes unread leaves one ECONNRESET before what it sent us last.
  int resets = 0;
  do {
    got = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && (errno == EINTR || (errno == ECONNRESET && ++resets < 2)));
  if (got < 0) return {errno == EAGAIN ? Outcome::kNothing : Outcome::kEnded, 0, 0, false};

  ReceivedMessage received{Outcome::kMessage, static_cast<size_t>(got), 0, false};
  received.truncated = (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(item) + i * sizeof(int), sizeof(int));
      // CMSG_SPACE rounds up, so that one more than asked for may have come.
      if (received.descriptor_count < wanted) {
        descriptors[received.descriptor_count++] = Descriptor(number);
      } else {
        ::close(number);
        received.truncated = true;
      }
    }
  }
  // An end of file: a packet socket has no empty messages of ours.
  if (got == 0 && received.descriptor_count == 0) received.outcome = Outcome::kEnded;
  return received;
}

}  // namespace refract::fabric::shm
