// SPDX-License-Identifier: Apache-2.0
// Unix sockets by path: listening where no other process does, and connecting.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "refract/base/report.h"
#include "refract/memory/host/descriptor.h"

namespace refract::fabric::shm {

// Listens for packets at `path`, non-blocking. Makes a missing directory (0700), removes the socket of a dead
// process, and refuses to touch anything that is not a socket. kInUse: a process answers there.
[[nodiscard]] Reported<Descriptor> listen_at(const std::string& path, uint32_t mode);

// A non-blocking connection. kOverloaded: the listener's queue is full, try again.
[[nodiscard]] Reported<Descriptor> connect_to(std::string_view path);

}  // namespace refract::fabric::shm
