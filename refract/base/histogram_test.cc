// SPDX-License-Identifier: Apache-2.0
#include "refract/base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "refract/base/prng.h"

namespace refract {
namespace {

void expect_close(uint64_t got, uint64_t exact) {
  EXPECT_LE(std::abs(static_cast<double>(got) - static_cast<double>(exact)),
            0.016 * static_cast<double>(exact))
      << got << " for " << exact;
}

TEST(Histogram, of_nothing_is_all_zero) {
  const auto empty = std::make_unique<Histogram>();
  EXPECT_EQ(empty->count(), 0u);
  EXPECT_EQ(empty->min(), 0u);
  EXPECT_EQ(empty->max(), 0u);
  EXPECT_EQ(empty->mean(), 0.0);
  EXPECT_EQ(empty->quantile(0.5), 0u);
}

TEST(Histogram, is_exact_for_small_values_and_close_for_all_others) {
  Prng prng(1);
  for (int step = 0; step < 20'000; ++step) {
    const uint64_t value = prng.next() >> prng.below(64);
    Histogram one;
    one.record(value);
    // Two more records far away, so that the clamping to min and max cannot hide a wrong bucket.
    one.record(0);
    one.record(UINT64_MAX);
    const uint64_t got = one.quantile(0.5);
    if (value < 64) {
      ASSERT_EQ(got, value);
    } else {
      expect_close(got, value);
    }
  }
}

TEST(Histogram, takes_the_edges_of_every_power_of_two) {
  for (unsigned power = 0; power < 64; ++power) {
    const uint64_t edge = uint64_t{1} << power;
    for (const uint64_t value : {edge - 1, edge, edge + 1}) {
      Histogram one;
      one.record_n(value, 3);
      EXPECT_EQ(one.quantile(0.5), value);
      EXPECT_EQ(one.min(), value);
      EXPECT_EQ(one.max(), value);
    }
  }
}

TEST(Histogram, agrees_with_sorting) {
  Prng prng(2);
  auto histogram = std::make_unique<Histogram>();
  std::vector<uint64_t> values;
  double sum = 0;
  for (int step = 0; step < 50'000; ++step) {
    // Spread over many powers of two, as latencies are.
    values.push_back(100 + (prng.next() >> (40 + prng.below(20))));
    histogram->record(values.back());
    sum += static_cast<double>(values.back());
  }
  std::ranges::sort(values);
  EXPECT_EQ(histogram->count(), values.size());
  EXPECT_EQ(histogram->min(), values.front());
  EXPECT_EQ(histogram->max(), values.back());
  EXPECT_NEAR(histogram->mean(), sum / 50'000, 1.0);
  for (const double share : {0.001, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 0.9999}) {
    const auto rank = static_cast<size_t>(std::ceil(share * 50'000)) - 1;
    expect_close(histogram->quantile(share), values[rank]);
  }
  EXPECT_EQ(histogram->quantile(1.0), values.back());
  EXPECT_EQ(histogram->quantile(7.0), values.back());
  EXPECT_EQ(histogram->quantile(-1.0), values.front());
  EXPECT_EQ(histogram->quantile(std::nan("")), values.front());
}

TEST(Histogram, merged_is_as_if_one_had_recorded_all) {
  Prng prng(3);
  auto whole = std::make_unique<Histogram>();
  auto left = std::make_unique<Histogram>();
  auto right = std::make_unique<Histogram>();
  for (int step = 0; step < 10'000; ++step) {
    const uint64_t value = prng.below(1'000'000);
    const uint64_t times = prng.below(3);
    whole->record_n(value, times);
    (prng.chance(0.5) ? left : right)->record_n(value, times);
  }
  left->merge(*right);
  left->merge(Histogram());
  EXPECT_EQ(left->count(), whole->count());
  EXPECT_EQ(left->min(), whole->min());
  EXPECT_EQ(left->max(), whole->max());
  EXPECT_NEAR(left->mean(), whole->mean(), 0.001);
  for (double share = 0; share <= 1; share += 0.01) EXPECT_EQ(left->quantile(share), whole->quantile(share));
  left->clear();
  EXPECT_EQ(left->count(), 0u);
  EXPECT_EQ(left->quantile(0.5), 0u);
}

TEST(Histogram, what_is_left_after_subtracting_was_recorded_since) {
  Histogram all;
  for (uint64_t value = 1; value <= 1'000; ++value) all.record(value);
  const Histogram earlier = all;
  for (uint64_t i = 0; i < 100; ++i) all.record(5'000'000);
  all.subtract(earlier);
  EXPECT_EQ(all.count(), 100u);
  EXPECT_NEAR(static_cast<double>(all.quantile(0.5)), 5e6, 5e6 / 64);
  EXPECT_NEAR(static_cast<double>(all.min()), 5e6, 5e6 / 64);
}

TEST(Histogram, subtracting_what_was_never_there_leaves_what_is_there) {
  Histogram fresh;
  fresh.record(10);
  Histogram earlier;
  earlier.record_n(10, 5);
  earlier.record(99);
  fresh.subtract(earlier);
  EXPECT_EQ(fresh.count(), 0u);
  EXPECT_EQ(fresh.max(), 0u);
}

TEST(Histogram, visited_pairs_make_the_same_histogram_again) {
  Histogram source;
  for (uint64_t value = 1; value < (uint64_t{1} << 60); value = value * 3 + 1)
    source.record_n(value, value % 7 + 1);
  source.record(UINT64_MAX);
  Histogram copy;
  uint64_t last = 0;
  source.visit([&](uint64_t value, uint64_t times) {
    EXPECT_TRUE(copy.count() == 0 || value > last);
    last = value;
    copy.record_n(value, times);
  });
  EXPECT_EQ(copy.count(), source.count());
  for (const double share : {0.1, 0.5, 0.9}) EXPECT_EQ(copy.quantile(share), source.quantile(share)) << share;
}

}  // namespace
}  // namespace refract
