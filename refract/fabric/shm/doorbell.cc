// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/shm/doorbell.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace refract::fabric::shm {

void ring(int doorbell) noexcept {
  const char byte = 1;
  (void)::send(doorbell, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool drain_doorbell(int doorbell) noexcept {
  std::array<std::byte, 4096> bytes;
  const ssize_t got = ::recv(doorbell, bytes.data(), bytes.size(), MSG_DONTWAIT);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

}  // namespace refract::fabric::shm
