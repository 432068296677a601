// SPDX-License-Identifier: Apache-2.0
#include "refract/client/link/unresolved_writes.h"

#include <gtest/gtest.h>

namespace refract::client {
namespace {

TEST(UnresolvedWrites, the_first_moment_is_remembered_until_it_is_settled) {
  UnresolvedWrites writes;
  const RequestId request{.client = 7, .sequence = 1};
  EXPECT_EQ(writes.first_sent_ns(request), 0U);
  writes.remember(request, 100);
  writes.remember(request, 200);
  EXPECT_EQ(writes.first_sent_ns(request), 100U);
  EXPECT_EQ(writes.first_sent_ns({.client = 7, .sequence = 2}), 0U);
  writes.settle(request);
  EXPECT_EQ(writes.first_sent_ns(request), 0U);
}

TEST(UnresolvedWrites, of_too_many_the_oldest_are_forgotten) {
  UnresolvedWrites writes;
  for (uint64_t i = 1; i <= UnresolvedWrites::kMax + 10; ++i)
    writes.remember({.client = 7, .sequence = i}, i);
  EXPECT_EQ(writes.first_sent_ns({.client = 7, .sequence = 10}), 0U);
  EXPECT_EQ(writes.first_sent_ns({.client = 7, .sequence = 11}), 11U);
  EXPECT_EQ(writes.first_sent_ns({.client = 7, .sequence = UnresolvedWrites::kMax + 10}),
            UnresolvedWrites::kMax + 10);
}

}  // namespace
}  // namespace refract::client
