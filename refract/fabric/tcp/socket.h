// SPDX-License-Identifier: Apache-2.0
// What the provider asks of the kernel for its sockets, and addresses as text.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

#include "refract/base/report.h"
#include "refract/memory/host/descriptor.h"

namespace refract::fabric::tcp {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  [[nodiscard]] const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
  [[nodiscard]] uint16_t port() const noexcept;
  [[nodiscard]] bool is_loopback() const noexcept;
  // "127.0.0.1:7400", "[::1]:7400"; "" where it is neither.
  [[nodiscard]] std::string text() const;
};

struct HostAndPort {
  std::string host;  // Without brackets.
  std::string port;
};
[[nodiscard]] Reported<HostAndPort> split_address(std::string_view address);

// Control path; looks names up, unless `numbers_only`, which may wait as long as the system's resolver does.
[[nodiscard]] Reported<std::vector<SocketAddress>> resolve(const HostAndPort& place, bool numbers_only);

[[nodiscard]] SocketAddress local_address(int fd) noexcept;
[[nodiscard]] SocketAddress peer_address(int fd) noexcept;

// No delay, keep-alive, the end of a dead peer. What a socket of another family refuses is no failure.
void tune(int fd) noexcept;
// For a path whose delay the kernel's own bounds would starve.
void enlarge_buffers(int fd) noexcept;
// Smoothed; 0: unknown.
[[nodiscard]] uint32_t round_trip_us(int fd) noexcept;

}  // namespace refract::fabric::tcp
