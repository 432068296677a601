// SPDX-License-Identifier: Apache-2.0
// How often and how long an operation is tried.
#pragma once

#include <cstddef>
#include <cstdint>

#include "refract/base/result.h"
#include "refract/client/paths/connection.h"

namespace refract::client {

// How long an operation continues.
struct Patience {
  uint64_t deadline_ns = 0;  // 0: no attempt has failed yet.
  // When the first attempt began: the timeout is that of all together. 0: there was none. Of operations whose
  // every message has a timeout of its own: likewise 0, and is_of_many.
  uint64_t begun_ns = 0;
  bool is_of_many = false;
  int losses = 0;  // Of the whole node.
  int waits = 0;
  int growth_waits = 0;
};

// What is left of the time, for one of so many attempts.
[[nodiscard]] inline uint64_t share_of(uint64_t now_ns, uint64_t deadline_ns, size_t attempts) noexcept {
  return deadline_ns > now_ns ? now_ns + (deadline_ns - now_ns) / attempts : deadline_ns;
}

// Whether an attempt surely did nothing.
struct Unsent {
  bool operator()(const Connection& /*connection*/, Code code) const noexcept {
    return code == Code::kUnavailable;
  }
};

}  // namespace refract::client
