// SPDX-License-Identifier: Apache-2.0
#include "bench/load/skewed_keys.h"

#include <algorithm>
#include <cmath>

namespace refract::bench {

SkewedKeys::SkewedKeys(uint64_t keys, double skew) : up_to_(skew > 0 ? keys : 0), keys_(keys) {
  double sum = 0;
  for (uint64_t i = 0; i < up_to_.size(); ++i) {
    sum += std::pow(static_cast<double>(i + 1), -skew);
    up_to_[i] = sum;
  }
}

uint64_t SkewedKeys::next(Prng& prng) const noexcept {
  if (up_to_.empty()) return prng.below(keys_);
  const double at = static_cast<double>(prng.next() >> 11) * 0x1.0p-53 * up_to_.back();
  const auto found = std::ranges::lower_bound(up_to_, at);
  return static_cast<uint64_t>(std::min(found, up_to_.end() - 1) - up_to_.begin());
}

}  // namespace refract::bench
