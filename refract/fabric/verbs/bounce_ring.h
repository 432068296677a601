// SPDX-License-Identifier: Apache-2.0
// A channel's registered memory for bytes that do not lie in registered memory themselves, as a ring: work
// requests of one queue pair complete in order, so what was taken first comes back first.
#pragma once

#include <cstddef>
#include <cstdint>

namespace refract::fabric::verbs {

class BounceRing {
 public:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kNone = ~size_t{0};

  explicit BounceRing(size_t bytes) noexcept : bytes_(bytes) {}

  // Where `bytes` fit behind each other, as an offset; kNone: not now. REQUIRES: 0 < bytes <= half the ring.
  [[nodiscard]] size_t take(size_t bytes) noexcept {
    const size_t wanted = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    uint64_t from = tail_;
    if (from % bytes_ + wanted > bytes_) from += bytes_ - from % bytes_;
    if (from + wanted - head_ > bytes_) return kNone;
    tail_ = from + wanted;
    return from % bytes_;
  }
  // What give_back() takes for all that has been taken so far.
  [[nodiscard]] uint64_t mark() const noexcept { return tail_; }
  void give_back(uint64_t mark) noexcept { head_ = mark; }
  void reset() noexcept { head_ = tail_ = 0; }

 private:
  uint64_t bytes_;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
};

}  // namespace refract::fabric::verbs
