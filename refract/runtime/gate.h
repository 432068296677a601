// SPDX-License-Identifier: Apache-2.0
// A Gate counts work in flight, so that a shutdown can refuse new work and wait for the old.
//
// A caller that starts work enters, and leaves when it is done; after close() no caller enters any more. The
// destructor checks that all have left: what the work uses may be destroyed only then. Used only by the
// thread of its shard.
#pragma once

#include <cstddef>

#include "refract/base/check.h"

namespace refract::runtime {

class Gate {
 public:
  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { REFRACT_CHECK(count_ == 0); }

  // False after close(): the work must not start, and must not leave().
  [[nodiscard]] bool enter() noexcept {
    if (closed_) return false;
    ++count_;
    return true;
  }
  void leave() noexcept {
    REFRACT_CHECK(count_ > 0);
    --count_;
  }
  void close() noexcept { closed_ = true; }

  [[nodiscard]] bool closed() const noexcept { return closed_; }
  [[nodiscard]] size_t count() const noexcept { return count_; }

 private:
  size_t count_ = 0;
  bool closed_ = false;
};

}  // namespace refract::runtime
