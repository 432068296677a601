// SPDX-License-Identifier: Apache-2.0
#include "bench/load/zipf.h"

#include <algorithm>
#include <cmath>

namespace refract::bench {

KeyPicker::KeyPicker(uint64_t keys, double skew, uint64_t seed) : prng_(seed), keys_(keys), skew_(skew) {
  if (skew <= 0) return;
  for (uint64_t rank = 1; rank <= keys; ++rank) zeta_ += 1 / std::pow(static_cast<double>(rank), skew);
  const double zeta_of_two = 1 + std::pow(0.5, skew);
  half_power_ = std::pow(0.5, skew);
  alpha_ = 1 / (1 - skew);
  const double share = 2 / static_cast<double>(keys);
  eta_ = keys <= 2 ? 0 : (1 - std::pow(share, 1 - skew)) / (1 - zeta_of_two / zeta_);
}

uint64_t KeyPicker::next_rank() noexcept {
  if (skew_ <= 0) return prng_.below(keys_);
  const double chance = static_cast<double>(prng_.next() >> 11) * 0x1.0p-53;
  const double scaled = chance * zeta_;
  uint64_t rank = 0;
  if (scaled >= 1 + half_power_) {
    const double reached = std::pow(eta_ * chance - eta_ + 1, alpha_) * static_cast<double>(keys_);
    rank = std::min(static_cast<uint64_t>(reached), keys_ - 1);
  } else if (scaled >= 1) {
    rank = std::min<uint64_t>(1, keys_ - 1);
  }
  return rank;
}

}  // namespace refract::bench
