// SPDX-License-Identifier: Apache-2.0
// A client, a home or a holder that is killed or stopped in each step of what shares an object: its caller is
// told what is true, and no node keeps a part of it. Likewise with a Redis: shared_redis_test.cc.
#include "tests/cluster/shared_steps.h"

#include <gtest/gtest.h>

namespace refract::test {
namespace {

TEST(SharedSteps, are_made_whole_or_not_at_all_whatever_is_killed_or_stopped_in_them) {
  SharedNodes nodes;
  ASSERT_EQ(nodes.trouble_to_agree(), "");
  SharedSteps steps(nodes);
  size_t runs = 0;
  for (const SharedStep step :
       {SharedStep::kCreate, SharedStep::kSeal, SharedStep::kPull, SharedStep::kBroadcast}) {
    for (const StepVictim victim : {StepVictim::kClient, StepVictim::kHome, StepVictim::kHolder}) {
      for (const StepBlow blow : {StepBlow::kStopped, StepBlow::kKilled, StepBlow::kNodeKilled}) {
        // A client has no memory of its own.
        if (victim == StepVictim::kClient && blow == StepBlow::kNodeKilled) continue;
        const StepTrouble trouble{.step = step, .victim = victim, .blow = blow};
        ++runs;
        ASSERT_EQ(steps.run(trouble), "") << text_of(trouble) << "\n" << steps.told();
      }
    }
  }
  RecordProperty("told", steps.told());
  RecordProperty("met", std::to_string(steps.met()));
  EXPECT_GT(steps.met(), runs / 3) << "too few calls were under way";
  // A second of a home is about as long as a call waits for it. A client's only delays its own.
  EXPECT_GE(steps.unharmed(), 4U);
}

}  // namespace
}  // namespace refract::test
