// SPDX-License-Identifier: Apache-2.0
// Descriptors: making memory that a peer cannot shrink and (where asked) cannot write, and passing them over
// Unix sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "refract/base/report.h"
#include "refract/memory/host/descriptor.h"

namespace refract::fabric::shm {

// Owns one mapping.
class Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* data, size_t bytes) noexcept : data_(data), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { reset(); }

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] explicit operator bool() const noexcept { return data_ != nullptr; }
  void reset() noexcept;

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// A memfd of `bytes`, zeroed and sealed against changes of its length. The memory of the first `taken_bytes`
// is taken now.
[[nodiscard]] Reported<Descriptor> make_memory(const char* name, size_t bytes, size_t taken_bytes);
[[nodiscard]] inline Reported<Descriptor> make_memory(const char* name, size_t bytes) {
  return make_memory(name, bytes, bytes);
}

// Forbids further seals and, if asked, every writable mapping that does not exist yet.
[[nodiscard]] Reported<> finish_seals(int fd, bool forbid_new_writers);

// Whether no process can shorten this memory, and it has exactly this length: what must hold before it is
// mapped, since a load beyond the end of a file kills the loader.
[[nodiscard]] bool has_fixed_length(int fd, size_t bytes) noexcept;
// The length of such memory; 0: it is none.
[[nodiscard]] uint64_t fixed_length(int fd) noexcept;

// Maps the whole of a shared memory; not part of core dumps. The first `taken_bytes` are mapped at once, the
// rest by faults.
[[nodiscard]] Reported<Mapping> map_shared(int fd, size_t bytes, bool writable, size_t taken_bytes);
[[nodiscard]] inline Reported<Mapping> map_shared(int fd, size_t bytes, bool writable) {
  return map_shared(fd, bytes, writable, bytes);
}
// Takes the memory of these pages of a writable mapping, so that no later store fails. False: there is none.
[[nodiscard]] bool take_pages(void* address, size_t bytes) noexcept;

// A second descriptor of the same memory, opened read-only; where that is refused (a process that is not root
// and not dumpable cannot reopen its own descriptors) a duplicate, for which the seal FUTURE_WRITE must do.
[[nodiscard]] Reported<Descriptor> read_only_descriptor(int fd);

// The most that one message may carry; the kernel refuses more than 253.
inline constexpr size_t kDescriptorsMax = 200;

// Sends one message with descriptors, without waiting. False: errno says why.
[[nodiscard]] bool send_message(int socket, std::span<const std::byte> message,
                                std::span<const int> descriptors = {}) noexcept;

// Receives one message, without waiting. Descriptors come close-on-exec; the caller owns the first
// `descriptor_count` of `descriptors` from then on.
struct ReceivedMessage {
  enum class Outcome : uint8_t { kMessage, kNothing, kEnded } outcome = Outcome::kNothing;
  size_t bytes = 0;
  size_t descriptor_count = 0;
  bool truncated = false;  // Message or descriptors did not fit.
};
[[nodiscard]] ReceivedMessage receive_message(int socket, std::span<std::byte> message,
                                              std::span<Descriptor> descriptors) noexcept;

}  // namespace refract::fabric::shm
