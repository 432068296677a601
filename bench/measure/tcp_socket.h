// SPDX-License-Identifier: Apache-2.0
// Plain TCP sockets for the sides that we compare with.
#pragma once

#include <cstdint>
#include <string>

#include "refract/base/report.h"
#include "refract/memory/host/descriptor.h"

namespace refract::bench {

// Listening on a free port of `address`, such as "127.0.0.1"; one client waits at most.
[[nodiscard]] Reported<Descriptor> listen_on(const std::string& address);
[[nodiscard]] uint16_t port_of(const Descriptor& socket);
// A port on loopback that was free a moment ago.
[[nodiscard]] Reported<uint16_t> free_port();

// Blocking, without Nagle's delay. `receive_buffer_bytes` 0: as large as the kernel finds right; others need
// root beyond the system's limit.
[[nodiscard]] Reported<Descriptor> connect_tcp(const std::string& address, uint16_t port,
                                               int receive_buffer_bytes = 0);
void send_at_once(const Descriptor& socket);

}  // namespace refract::bench
