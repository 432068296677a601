// SPDX-License-Identifier: Apache-2.0
#include "refract/runtime/gate.h"

#include <gtest/gtest.h>

namespace refract::runtime {
namespace {

TEST(Gate, lets_work_in_until_it_is_closed) {
  Gate gate;
  EXPECT_TRUE(gate.enter());
  EXPECT_TRUE(gate.enter());
  gate.close();
  EXPECT_TRUE(gate.closed());
  EXPECT_FALSE(gate.enter());
  EXPECT_EQ(gate.count(), 2u);
  gate.leave();
  gate.leave();
  EXPECT_EQ(gate.count(), 0u);
}

TEST(GateDeathTest, does_not_go_while_work_is_in_flight) {
  const auto run = [] {
    Gate gate;
    if (!gate.enter()) return;
  };
  EXPECT_DEATH(run(), "check failed: count_ == 0");
}

TEST(GateDeathTest, is_not_left_by_those_who_never_entered) {
  const auto run = [] {
    Gate gate;
    gate.leave();
  };
  EXPECT_DEATH(run(), "check failed: count_ > 0");
}

}  // namespace
}  // namespace refract::runtime
