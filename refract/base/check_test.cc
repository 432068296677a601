// SPDX-License-Identifier: Apache-2.0
#include "refract/base/check.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace refract {
namespace {

TEST(CheckDeathTest, a_false_condition_names_itself_and_its_place) {
  EXPECT_DEATH(REFRACT_CHECK(1 + 1 == 3), "check_test.cc:[0-9]+: check failed: 1 \\+ 1 == 3");
}

TEST(CheckDeathTest, the_hook_runs_before_the_abort) {
  const auto run = [] {
    set_check_hook([]() noexcept { std::fputs("the hook was here\n", stderr); });
    REFRACT_CHECK(false);
  };
  EXPECT_DEATH(run(), "check failed: false\nthe hook was here");
}

TEST(Check, a_true_condition_is_evaluated_once) {
  int evaluations = 0;
  REFRACT_CHECK(++evaluations == 1);
  EXPECT_EQ(evaluations, 1);
}

}  // namespace
}  // namespace refract
