// SPDX-License-Identifier: Apache-2.0
#include "refract/base/histogram.h"

#include <algorithm>
#include <cmath>

namespace refract {

void Histogram::record_n(uint64_t value_ns, uint64_t times) noexcept {
  if (times == 0) return;
  buckets_[bucket_of(value_ns)] += times;
  count_ += times;
  sum_ += static_cast<double>(value_ns) * static_cast<double>(times);
  min_ = std::min(min_, value_ns);
  max_ = std::max(max_, value_ns);
}

void Histogram::merge(const Histogram& other) noexcept {
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) buckets_[bucket] += other.buckets_[bucket];
  count_ += other.count_;
  sum_ += other.sum_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

void Histogram::subtract(const Histogram& earlier) noexcept {
  Histogram left;
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    const uint64_t gone = std::min(buckets_[bucket], earlier.buckets_[bucket]);
    left.record_n(middle_of(bucket), buckets_[bucket] - gone);
  }
  *this = left;
}

double Histogram::mean() const noexcept {
  return count_ == 0 ? 0.0 : sum_ / static_cast<double>(count_);
}

uint64_t Histogram::quantile(double share) const noexcept {
  if (count_ == 0) return 0;
  // The comparison is written so that a NaN counts as 0.
  const double clamped = share > 0 ? std::min(share, 1.0) : 0.0;
  const auto wanted = std::ceil(clamped * static_cast<double>(count_));
  // The ends are known exactly.
  if (wanted <= 1) return min_;
  if (wanted >= static_cast<double>(count_)) return max_;
  uint64_t seen = 0;
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    if (buckets_[bucket] == 0) continue;
    seen += buckets_[bucket];
    if (static_cast<double>(seen) >= wanted) return std::clamp(middle_of(bucket), min_, max_);
  }
  return max_;
}

}  // namespace refract
