// SPDX-License-Identifier: Apache-2.0
// A clock and cores with which a CopyTeam does as its test says, whatever the machine has.
#pragma once

#include <cstdint>

#include "refract/base/clock.h"
#include "refract/memory/copy_team.h"

namespace refract::test {

inline unsigned many_cores() noexcept {
  return 1'000;
}

// By which copies take as long as they are said to, in the order in which a team tries them: looked at before
// each copy and after it.
class StagedClock final : public Clock {
 public:
  StagedClock(uint64_t alone_ns, uint64_t together_ns) noexcept
      : alone_ns_(alone_ns), together_ns_(together_ns) {}
  [[nodiscard]] uint64_t now_ns() const noexcept override {
    is_over_ = !is_over_;
    if (!is_over_) return now_ns_;
    const bool is_helped = trials_.wants_help();
    const uint64_t ns = is_helped ? together_ns_ : alone_ns_;
    trials_.note(is_helped, ns, 1);
    now_ns_ += ns;
    return now_ns_;
  }
  [[nodiscard]] uint64_t wall_ns() const noexcept override { return now_ns_; }

 private:
  const uint64_t alone_ns_;
  const uint64_t together_ns_;
  mutable bool is_over_ = true;
  mutable uint64_t now_ns_ = 1;
  mutable CopyTrials trials_;
};

}  // namespace refract::test
