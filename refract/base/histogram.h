// SPDX-License-Identifier: Apache-2.0
// A log-linear histogram of durations (or any 64-bit counts): 64 buckets for each power of two.
//
// What quantile() returns is within 1/64 (1.6 %) of a recorded value; min, max and count are exact. Memory is
// fixed (about 30 KB inside the object), nothing allocates, every 64-bit value is accepted. One owner, no
// locks: each shard records into its own, and readers merge copies.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace refract {

class Histogram {
 public:
  void record(uint64_t value_ns) noexcept { record_n(value_ns, 1); }
  // As if `value_ns` were recorded `times` times.
  void record_n(uint64_t value_ns, uint64_t times) noexcept;
  void merge(const Histogram& other) noexcept;
  void clear() noexcept { *this = Histogram(); }
  // Takes out what an earlier copy of this histogram had, so that what is left was recorded since. Of min,
  // max and mean only their buckets are known then, as of quantiles. REQUIRES: `earlier` was a state of this
  // one; where it was not (a restart lies between), nothing is taken out that is not there.
  void subtract(const Histogram& earlier) noexcept;

  // `visit(value, times)` for each bucket that holds something, ascending; recording these pairs with
  // record_n makes a histogram with the same buckets.
  template <typename Visit>
  void visit(Visit&& visit) const {
    for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
      if (buckets_[bucket] > 0) visit(middle_of(bucket), buckets_[bucket]);
    }
  }

  [[nodiscard]] uint64_t count() const noexcept { return count_; }
  // These four are 0 when nothing has been recorded.
  [[nodiscard]] uint64_t min() const noexcept { return count_ == 0 ? 0 : min_; }
  [[nodiscard]] uint64_t max() const noexcept { return max_; }
  [[nodiscard]] double mean() const noexcept;
  // The value below or at which the given share of records lies: quantile(0.99). Shares outside [0, 1] are
  // clamped.
  [[nodiscard]] uint64_t quantile(double share) const noexcept;

 private:
  static constexpr unsigned kSubBits = 6;
  static constexpr size_t kSubCount = size_t{1} << kSubBits;
  static constexpr size_t kBuckets = (64 - kSubBits + 1) * kSubCount;

  static constexpr size_t bucket_of(uint64_t value) noexcept {
    if (value < kSubCount) return static_cast<size_t>(value);
    const auto shift = static_cast<unsigned>(std::bit_width(value)) - 1 - kSubBits;
    return (shift + 1) * kSubCount + static_cast<size_t>((value >> shift) - kSubCount);
  }
  // Of the values that fall into the bucket; it halves the error that either end would have.
  static constexpr uint64_t middle_of(size_t bucket) noexcept {
    if (bucket < kSubCount) return bucket;
    const size_t shift = bucket / kSubCount - 1;
    const uint64_t lowest = (kSubCount + bucket % kSubCount) << shift;
    return lowest + ((uint64_t{1} << shift) - 1) / 2;
  }

  uint64_t count_ = 0;
  uint64_t min_ = UINT64_MAX;
  uint64_t max_ = 0;
  double sum_ = 0;  // A double, so that no run is long enough to overflow it.
  std::array<uint64_t, kBuckets> buckets_ = {};
};

}  // namespace refract
