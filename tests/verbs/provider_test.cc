// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/verbs/two_ends.h"

namespace refract::fabric::verbs {
namespace {

TEST(VerbsProvider, a_domain_says_which_device_it_uses_and_why) {
  TwoEnds ends;
  EXPECT_FALSE(ends.client().device().why.empty());
  EXPECT_GT(ends.client().channels_max(), 0u);
}

}  // namespace
}  // namespace refract::fabric::verbs
