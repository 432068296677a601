// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/admin/slow_log.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace refract::doors::redis {
namespace {

void add(SlowLog& log, std::vector<std::string_view> words, uint64_t took_us = 1) {
  log.add(words, {.at_s = 1, .took_us = took_us, .words = {}, .client = "client", .client_name = "name"});
}

// Claim: it keeps so many as it is asked for, the last ones, and numbers go on behind those that have gone.
TEST(SlowLog, the_last_ones_are_kept) {
  SlowLog log;
  log.set_length_max(3);
  for (uint64_t i = 0; i < 5; ++i) add(log, {"word"}, i);
  ASSERT_EQ(log.length(), 3U);
  const std::vector<SlowCommand> two = log.last(2);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0].number, 4U);
  EXPECT_EQ(two[0].took_us, 4U);
  EXPECT_EQ(two[1].number, 3U);
  EXPECT_EQ(two[0].client, "client");
  EXPECT_EQ(two[0].client_name, "name");
  log.set_length_max(1);
  EXPECT_EQ(log.length(), 1U);
  log.clear();
  EXPECT_EQ(log.length(), 0U);
  add(log, {"word"});
  EXPECT_EQ(log.last(9).front().number, 5U);
  log.set_length_max(0);
  add(log, {"word"});
  EXPECT_EQ(log.length(), 0U);
}

// Claim: a command with many or long words takes bounded memory, and what is left out is told.
TEST(SlowLog, words_are_shortened) {
  SlowLog log;
  const std::string exact(SlowLog::kWordBytesMax, 'x');
  add(log, {exact, exact + "yz"});
  EXPECT_EQ(log.last(1).front().words, (std::vector<std::string>{exact, exact + "... (2 more bytes)"}));
  add(log, std::vector<std::string_view>(SlowLog::kWordsMax, "w"));
  EXPECT_EQ(log.last(1).front().words, std::vector<std::string>(SlowLog::kWordsMax, "w"));
  add(log, std::vector<std::string_view>(SlowLog::kWordsMax + 1, "w"));
  std::vector<std::string> shortened(SlowLog::kWordsMax - 1, "w");
  shortened.emplace_back("... (2 more arguments)");
  EXPECT_EQ(log.last(1).front().words, shortened);
}

// Claim: a threshold takes what is as slow as it, 0 takes all, and a negative one nothing.
TEST(SlowLog, the_threshold_says_what_is_slow) {
  SlowLog log;
  EXPECT_FALSE(log.is_slow(9'999'999));
  EXPECT_TRUE(log.is_slow(10'000'000));
  EXPECT_FALSE(log.wants_short_ones());
  log.set_slower_than_us(0);
  EXPECT_TRUE(log.is_slow(0));
  EXPECT_TRUE(log.wants_short_ones());
  log.set_slower_than_us(-1);
  EXPECT_FALSE(log.is_slow(UINT64_MAX));
  EXPECT_FALSE(log.wants_short_ones());
}

}  // namespace
}  // namespace refract::doors::redis
