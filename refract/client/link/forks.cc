// SPDX-License-Identifier: Apache-2.0
#include "refract/client/link/forks.h"

#include <pthread.h>

namespace refract::client {

std::atomic<uint32_t> fork_depth = 0;

void watch_forks() noexcept {
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { fork_depth.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
}

}  // namespace refract::client
