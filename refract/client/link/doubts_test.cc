// SPDX-License-Identifier: Apache-2.0
#include "refract/client/link/doubts.h"

#include <gtest/gtest.h>

namespace refract::client {
namespace {

TEST(Doubts, the_first_moment_is_remembered_until_it_is_settled) {
  Doubts doubts;
  const RequestId request{.client = 7, .sequence = 1};
  EXPECT_EQ(doubts.first_sent_ns(request), 0U);
  doubts.remember(request, 100);
  doubts.remember(request, 200);
  EXPECT_EQ(doubts.first_sent_ns(request), 100U);
  EXPECT_EQ(doubts.first_sent_ns({.client = 7, .sequence = 2}), 0U);
  doubts.settle(request);
  EXPECT_EQ(doubts.first_sent_ns(request), 0U);
}

TEST(Doubts, of_too_many_the_oldest_are_forgotten) {
  Doubts doubts;
  for (uint64_t i = 1; i <= Doubts::kMax + 10; ++i) doubts.remember({.client = 7, .sequence = i}, i);
  EXPECT_EQ(doubts.first_sent_ns({.client = 7, .sequence = 10}), 0U);
  EXPECT_EQ(doubts.first_sent_ns({.client = 7, .sequence = 11}), 11U);
  EXPECT_EQ(doubts.first_sent_ns({.client = 7, .sequence = Doubts::kMax + 10}), Doubts::kMax + 10);
}

}  // namespace
}  // namespace refract::client
