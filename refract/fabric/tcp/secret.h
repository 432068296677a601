// SPDX-License-Identifier: Apache-2.0
// The secret that both ends of a TCP connection share, and by which each proves itself to the other. It never
// travels: see handshake.h.
//
// Its bytes lie in a page of their own, which core dumps leave out and which a forked server inherits, and
// are wiped before they are given back. Nothing here prints them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "refract/base/report.h"

namespace refract::fabric::tcp {

// As what the connecting end comes. Each role has a secret of its own, and none gives the other role.
enum class Role : uint32_t {
  kClient = 0,  // Proven by the clients' secret, where the node has one.
  kNode = 1,    // Another node of the cluster. Proven by the cluster's secret, always.
};

inline constexpr size_t kSecretBytesMin = 16;
inline constexpr size_t kSecretBytesMax = 1024;

class Secret {
 public:
  Secret() noexcept = default;
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;
  Secret(Secret&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Secret& operator=(Secret&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Secret();

  // Copies `bytes`; the caller wipes its own copy. kInvalidArgument: too short or too long.
  [[nodiscard]] static Reported<Secret> copy_of(std::span<const std::byte> bytes);

  // Empty where there is none. Valid as long as this object.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {memory_, bytes_}; }

 private:
  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
};

// Control path. Reads a file of 16 to 1024 bytes, not counting one newline at its end. Refused: a file that
// others than its owner can read, or that is no regular file, or too short or too long; the sentence says
// what to run.
[[nodiscard]] Reported<Secret> read_secret(const std::string& path);

}  // namespace refract::fabric::tcp
