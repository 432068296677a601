// SPDX-License-Identifier: Apache-2.0
// What the node before this one may still hold: the server of a keeper that was killed ends by itself, a
// moment later, and has the folder and the port until then.
#pragma once

#include <poll.h>

#include <cstdint>

#include "refract/base/clock.h"
#include "refract/base/result.h"
#include "refract/base/units.h"

namespace refract::node {

// Calls `take` until it says something other than kInUse, for two seconds at most; then what it said last.
// Control path: blocks.
template <typename Take>
[[nodiscard]] auto take_from_predecessor(Take&& take) {
  constexpr uint64_t kPatience_ns = 2 * kSecond_ns;
  constexpr int kPause_ms = 20;
  const uint64_t until_ns = system_clock().now_ns() + kPatience_ns;
  auto taken = take();
  while (!taken && taken.error().code == Code::kInUse && system_clock().now_ns() < until_ns) {
    (void)::poll(nullptr, 0, kPause_ms);
    taken = take();
  }
  return taken;
}

}  // namespace refract::node
