// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/admin/command_counts.h"

#include <gtest/gtest.h>

#include <string_view>

#include "refract/doors/admin/blocked.h"
#include "refract/doors/redis/commands.h"

namespace refract::doors::redis {
namespace {

TEST(CommandCounts, of_all_threads_are_told_by_rows_until_they_begin_again) {
  CommandCounts counts(3);
  EXPECT_TRUE(counts.sums().empty());
  const Row& get = *row_of("GET");
  const Row& list = *row_of_full_name("client|list");
  counts.of(0, get).calls.fetch_add(2);
  counts.of(2, get).calls.fetch_add(5);
  counts.of(2, get).failed.fetch_add(1);
  counts.of(1, list).rejected.fetch_add(1);
  const std::vector<CommandSums> sums = counts.sums();
  ASSERT_EQ(sums.size(), 2U);
  EXPECT_EQ(sums[0].row, &list) << "in the order of the tables";
  EXPECT_EQ(sums[0].rejected, 1U);
  EXPECT_EQ(sums[1].row, &get);
  EXPECT_EQ(sums[1].calls, 7U);
  EXPECT_EQ(sums[1].failed, 1U);
  counts.reset();
  EXPECT_TRUE(counts.sums().empty());
  counts.of(0, get).calls.fetch_add(1);
  ASSERT_EQ(counts.sums().size(), 1U);
  EXPECT_EQ(counts.sums()[0].calls, 1U);
  EXPECT_EQ(counts.sums()[0].failed, 0U);
}

TEST(Blocked, each_is_told_its_first_word_while_it_waits) {
  Blocked all;
  EXPECT_FALSE(all.unblock(7, Blocked::Word::kTimeout));
  {
    const Blocked::Waiting one(all, 7);
    const Blocked::Waiting other(all, 8);
    EXPECT_TRUE(all.unblock(7, Blocked::Word::kError));
    EXPECT_FALSE(all.unblock(7, Blocked::Word::kTimeout)) << "it is told already";
    EXPECT_EQ(one.word(), Blocked::Word::kError);
    EXPECT_EQ(other.word(), Blocked::Word::kNone);
  }
  EXPECT_FALSE(all.unblock(8, Blocked::Word::kTimeout));
}

}  // namespace
}  // namespace refract::doors::redis
