// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/uses.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "refract/base/prng.h"

namespace refract {
namespace {

TEST(Uses, are_read_once_and_the_last_ones_stay) {
  UseTable table{};
  UseWriter writer(&table);
  UseReader reader;
  std::vector<uint64_t> hashes;
  for (uint64_t i = 1; i <= 700; ++i) {
    writer.write(i);
    if (i == 3) reader.collect(table, hashes);
  }
  EXPECT_EQ(hashes, (std::vector<uint64_t>{1, 2, 3}));
  hashes.clear();
  reader.collect(table, hashes);
  ASSERT_EQ(hashes.size(), kUsesMax);
  EXPECT_EQ(hashes.front(), 700 - kUsesMax + 1);
  EXPECT_EQ(hashes.back(), 700u);
  hashes.clear();
  reader.collect(table, hashes);
  EXPECT_TRUE(hashes.empty());
}

TEST(Uses, go_on_where_the_page_is) {
  UseTable table{};
  UseWriter(&table).write(1);
  UseWriter(&table).write(2);
  std::vector<uint64_t> hashes;
  UseReader().collect(table, hashes);
  EXPECT_EQ(hashes, (std::vector<uint64_t>{1, 2}));
}

TEST(Uses, of_a_lying_page_no_more_is_read_than_it_holds) {
  Prng prng(1);
  UseTable table{};
  UseReader reader;
  for (int round = 0; round < 1'000; ++round) {
    for (uint64_t& word : std::span(reinterpret_cast<uint64_t*>(&table), sizeof(table) / 8)) {
      word = prng.next();
    }
    if (round % 3 == 0) table.written = prng.below(600);
    if (round % 7 == 0) table.written = UINT64_MAX - prng.below(600);
    std::vector<uint64_t> hashes;
    reader.collect(table, hashes);
    EXPECT_LE(hashes.size(), kUsesMax);
  }
}

TEST(UseSampler, takes_one_of_so_many_at_no_fixed_distance) {
  UseSampler sampler;
  EXPECT_EQ(sampler.due(), UseSampler::kNever);
  sampler.start(8, 0);
  std::vector<uint64_t> gaps;
  uint64_t last = 0;
  for (uint64_t reads = 1; reads <= 80'000; ++reads) {
    if (reads < sampler.due()) continue;
    gaps.push_back(reads - last);
    last = reads;
    sampler.taken(reads);
  }
  EXPECT_NEAR(static_cast<double>(gaps.size()), 10'000, 300);
  EXPECT_EQ(*std::ranges::min_element(gaps), 1u);
  EXPECT_EQ(*std::ranges::max_element(gaps), 15u);
  sampler.start(0, 80'000);
  EXPECT_EQ(sampler.due(), UseSampler::kNever);
}

}  // namespace
}  // namespace refract
