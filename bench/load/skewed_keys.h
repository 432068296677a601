// SPDX-License-Identifier: Apache-2.0
// Which of some entries comes next, by a Zipf law that may be steeper than KeyPicker's.
#pragma once

#include <cstdint>
#include <vector>

#include "refract/base/prng.h"

namespace refract::bench {

// Entry i is drawn in proportion to 1 / (i + 1)^skew. Takes 8 B an entry where there is a skew.
class SkewedKeys {
 public:
  // `skew` 0: all alike. REQUIRES: keys > 0.
  SkewedKeys(uint64_t keys, double skew);
  [[nodiscard]] uint64_t next(Prng& prng) const noexcept;
  [[nodiscard]] uint64_t keys() const noexcept { return keys_; }

 private:
  std::vector<double> up_to_;  // Of it and all before it.
  uint64_t keys_;
};

}  // namespace refract::bench
