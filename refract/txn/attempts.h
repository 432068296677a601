// SPDX-License-Identifier: Apache-2.0
// How often a transaction is tried again: after growing random pauses, until its time is over; and what its
// attempts have in common.
//
// Threads: one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "refract/base/prng.h"
#include "refract/base/result.h"
#include "refract/base/units.h"

namespace refract::txn {

// Of all attempts of a transaction: owners are told its age, by which older ones wait for keys, and younger
// ones are refused.
struct Effort {
  uint64_t begun_ns = 0;  // The first one, by the clock of the shard that asks.
  uint32_t refusals = 0;  // For a key that another transaction had.
  // When this attempt is given up, by the same clock, where that is before the client's own timeout.
  uint64_t deadline_ns = kForever_ns;

  // Whether its shards are asked one by one from now on, in the same order as all others ask.
  [[nodiscard]] bool goes_in_order() const noexcept { return refusals >= kRefusals; }
  static constexpr uint32_t kRefusals = 8;
};

class Attempts {
 public:
  // By one clock; `seed` is another one for each transaction, or the same ones would meet again and again.
  Attempts(uint64_t now_ns, uint64_t timeout_ns, uint64_t seed) noexcept
      : deadline_ns_(timeout_ns > kForever_ns - now_ns ? kForever_ns : now_ns + timeout_ns),
        timeout_ns_(timeout_ns),
        prng_(seed) {}

  // Whether this code says that other writers were in the way, so that another attempt may succeed.
  [[nodiscard]] static bool is_conflict(Code code) noexcept {
    return code == Code::kConflict || code == Code::kExists || code == Code::kNotFound ||
           code == Code::kVersionMismatch;
  }

  // How long to pause before the next one; nothing: the time is over.
  [[nodiscard]] std::optional<uint64_t> pause(uint64_t now_ns) noexcept {
    ++count_;
    const uint64_t pause_ns = count_ == 1 ? 0 : prng_.below(pause_max_ns_);
    if (count_ > 1) pause_max_ns_ = std::min(pause_max_ns_ * 2, kPauseMax_ns);
    if (now_ns >= deadline_ns_ || pause_ns >= deadline_ns_ - now_ns) return std::nullopt;
    return pause_ns;
  }
  // Whether writers have overtaken it so often that its reads are held.
  [[nodiscard]] bool is_overtaken() const noexcept { return count_ >= kOvertaken; }
  static constexpr uint64_t kOvertaken = 4;
  [[nodiscard]] uint64_t count() const noexcept { return count_; }
  [[nodiscard]] uint64_t deadline_ns() const noexcept { return deadline_ns_; }
  // Until when a commit that begins now may take: half of the time at least, or one that is sent at the last
  // moment would leave it open whether it has happened.
  [[nodiscard]] uint64_t commit_by_ns(uint64_t now_ns) const noexcept {
    const uint64_t half_ns = timeout_ns_ / 2;
    return half_ns > kForever_ns - now_ns ? kForever_ns : std::max(deadline_ns_, now_ns + half_ns);
  }
  // Of an attempt that ended with `code`: whether its time was over, and others were in the way before. Then
  // it does not matter that a node did not answer in the rest of it.
  [[nodiscard]] bool is_late(Code code, const Effort& effort) const noexcept {
    return code == Code::kUnavailable && effort.deadline_ns != kForever_ns &&
           (count_ != 0 || effort.refusals != 0);
  }

 private:
  static constexpr uint64_t kPauseMax_ns = 5 * kMillisecond_ns;

  uint64_t deadline_ns_;
  uint64_t timeout_ns_;
  Prng prng_;
  uint64_t pause_max_ns_ = 2 * kMicrosecond_ns;
  uint64_t count_ = 0;  // Attempts that failed.
};

}  // namespace refract::txn
