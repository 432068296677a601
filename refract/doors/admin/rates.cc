// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/admin/rates.h"

namespace refract::doors::redis {

void Rates::note(uint64_t now_ns, const Sums& sums) {
  const std::lock_guard lock(mutex_);
  // Another thread may have done it meanwhile.
  if (!is_due(now_ns)) return;
  moments_[next_] = {.at_ns = now_ns, .sums = sums};
  next_ = (next_ + 1) % kMoments;
  due_ns_.store(now_ns + kBetween_ns, std::memory_order_relaxed);
}

// Since the earliest moment of those that are not too long ago; or, where nothing was done for long, since
// the last one.
Rates::Sums Rates::of_a_second(uint64_t now_ns, const Sums& sums) {
  constexpr uint64_t kWindow_ns = kMoments * kBetween_ns;
  const std::lock_guard lock(mutex_);
  Moment begin = moments_[(next_ + kMoments - 1) % kMoments];
  for (size_t i = 0; i < kMoments; ++i) {
    const Moment& moment = moments_[(next_ + i) % kMoments];
    if (moment.at_ns == 0 || now_ns - moment.at_ns > kWindow_ns) continue;
    begin = moment;
    break;
  }
  if (begin.at_ns == 0 || now_ns <= begin.at_ns) return {};
  const auto rate = [past_ns = now_ns - begin.at_ns](uint64_t before, uint64_t now) {
    const uint64_t more = now > before ? now - before : 0;
    return static_cast<uint64_t>(static_cast<double>(more) * static_cast<double>(kSecond_ns) /
                                 static_cast<double>(past_ns));
  };
  return {.commands = rate(begin.sums.commands, sums.commands),
          .bytes_in = rate(begin.sums.bytes_in, sums.bytes_in),
          .bytes_out = rate(begin.sums.bytes_out, sums.bytes_out)};
}

void Rates::reset() {
  const std::lock_guard lock(mutex_);
  moments_ = {};
  due_ns_.store(0, std::memory_order_relaxed);
}

}  // namespace refract::doors::redis
