// SPDX-License-Identifier: Apache-2.0
// The time and the memory of a served table, as a test has them in its hand.
//
// Threads: one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/units.h"
#include "refract/fabric/channel.h"
#include "refract/kv/owner/ports.h"
#include "refract/runtime/shard.h"

namespace refract::kv::test {

// Time stands still while there is work, and jumps to the next timer when there is none.
class JumpingIdler final : public runtime::Idler {
 public:
  explicit JumpingIdler(ManualClock& clock) noexcept : clock_(clock) {}
  void watch(fabric::Domain& domain) { domains_.push_back(&domain); }
  void forget_domains() { domains_.clear(); }

  [[nodiscard]] bool idle(uint64_t until_ns) noexcept override {
    bool quiet = true;
    for (fabric::Domain* domain : domains_) {
      quiet = domain->prepare_sleep() && quiet;
      domain->woke();
    }
    if (!quiet) return true;
    if (until_ns == kForever_ns) return false;
    clock_.set_now_ns(until_ns);
    return true;
  }

 private:
  ManualClock& clock_;
  std::vector<fabric::Domain*> domains_;
};

class ManualGrowth final : public GrowthSource {
 public:
  [[nodiscard]] bool can_grow(uint64_t bytes) const noexcept override {
    return allowed && bytes < refused_bytes;
  }
  void want(uint64_t bytes) noexcept override {
    ++asked;
    wanted_bytes = bytes;
    wanted_bytes_max = std::max(wanted_bytes_max, bytes);
  }

  bool allowed = false;
  uint64_t refused_bytes = UINT64_MAX;  // As much, or more.
  uint64_t asked = 0;
  uint64_t wanted_bytes = 0;      // The last time,
  uint64_t wanted_bytes_max = 0;  // and at most.
};

}  // namespace refract::kv::test
