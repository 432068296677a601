// SPDX-License-Identifier: Apache-2.0
// Counters of the processor, where there are any: what is not there must never show as a number.
#include "bench/measure/counters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "bench/kv/kv_results.h"
#include "bench/measure/measure.h"

namespace refract::bench {
namespace {

TEST(Counters, count_what_this_thread_does_or_say_that_there_are_none) {
  const Counters counters = Counters::of_this_thread();
  uint64_t sum = 0;
  for (uint64_t i = 0; i < 1'000'000; ++i) keep(sum += i);
  const Counts counts = counters.during(10);
  if (counts.operations == 0) {
    EXPECT_EQ(counts.cycles + counts.instructions, 0U);
    GTEST_SKIP() << "this machine has no counters, or keeps them from us";
  }
  EXPECT_GE(counts.instructions, 1'000'000U);
  EXPECT_GE(counts.instructions_per_operation(), 100'000);
  EXPECT_GT(counts.cycles, 0U);
}

TEST(Counters, of_a_process_that_is_gone_are_none) {
  EXPECT_EQ(Counters::of_process(-1).during(1).operations, 0U);
}

TEST(KvResults, show_counts_only_where_there_are_some) {
  KvResult result;
  result.sides.resize(1);
  result.sides[0].name = "refract";
  EXPECT_EQ(counts_of(result), "cycles and instructions: no counters here\n");
  result.sides[0].sum.counts = {.cycles = 5'000, .instructions = 20'000, .operations = 10};
  const std::string text = counts_of(result);
  EXPECT_NE(text.find("2000"), std::string::npos) << text;
  EXPECT_EQ(text.find("no counters"), std::string::npos) << text;
  Section section;
  add_sides(section, result, {.samples = {}});
  const auto has = [&section](std::string_view what) {
    return std::ranges::any_of(section.series, [&](const Series& series) { return series.what == what; });
  };
  EXPECT_FALSE(has("server's cycles an operation"));
  const Series& cycles = section.series_of("client's cycles an operation", "refract", "");
  ASSERT_EQ(cycles.points.size(), 1u);
  EXPECT_EQ(cycles.points[0].samples, std::vector<double>{500});
}

}  // namespace
}  // namespace refract::bench
