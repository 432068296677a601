// SPDX-License-Identifier: Apache-2.0
// Which key comes next: uniform, or by a Zipf law, under which a few keys are asked for most often.
#pragma once

#include <cstdint>

#include "refract/base/prng.h"

namespace refract::bench {

// Gray et al., "Quickly generating billion-record synthetic databases" (SIGMOD 1994), as YCSB has it. Ranks
// are scattered over the keys, so that popular keys are no neighbours.
class KeyPicker {
 public:
  // `skew` 0: uniform. REQUIRES: 0 <= skew < 1, keys > 0. Takes time in proportion to `keys` if skew > 0.
  KeyPicker(uint64_t keys, double skew, uint64_t seed);
  [[nodiscard]] uint64_t next() noexcept { return key_at(next_rank()); }
  // In two steps: 0 is asked for most often; whose key it is.
  [[nodiscard]] uint64_t next_rank() noexcept;
  [[nodiscard]] uint64_t key_at(uint64_t rank) const noexcept {
    return skew_ <= 0 ? rank : mix(rank) % keys_;
  }

 private:
  Prng prng_;
  uint64_t keys_;
  double skew_;
  double zeta_ = 0;
  double alpha_ = 0;
  double eta_ = 0;
  double half_power_ = 0;
};

}  // namespace refract::bench
