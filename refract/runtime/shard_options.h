// SPDX-License-Identifier: Apache-2.0
// What a Shard is made with.
#pragma once

#include <cstddef>
#include <cstdint>

namespace refract::runtime {

// What a shard does instead of spinning and sleeping, where time is virtual.
class Idler {
 public:
  virtual ~Idler() = default;
  // Nothing can be done before `until_ns` (kForever_ns: no timer, no deadline) unless something arrives.
  // Moves time or the world forward. False: nothing will ever happen, so run_until gives up.
  [[nodiscard]] virtual bool idle(uint64_t until_ns) noexcept = 0;
};

struct ShardOptions {
  size_t ops_max = 4096;      // Operations in flight; beyond it they end with kOverloaded.
  uint64_t spin_ns = 20'000;  // About what a wake-up across cores costs.
  unsigned yield_count = 2;   // Turns given to others before sleeping.
  Idler* idler = nullptr;     // Null: really wait. Must outlive the shard.
};

}  // namespace refract::runtime
