// SPDX-License-Identifier: Apache-2.0
// A doorbell is one end of a socket pair: a byte on it wakes the other end. The byte stays in the socket, so
// no wake-up is lost when a process is stopped or the moment is unlucky.
#pragma once

namespace refract::fabric::shm {

// Never waits. A full socket holds unread bytes already, which wake just as well.
void ring(int doorbell) noexcept;

// Takes out what was rung, a bounded amount. False: the other end is gone.
[[nodiscard]] bool drain_doorbell(int doorbell) noexcept;

}  // namespace refract::fabric::shm
