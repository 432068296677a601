// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/writes/key_turns.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/units.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::doors::redis {
namespace {

using runtime::Task;

class KeyTurnsTest : public testing::Test {
 protected:
  void run() {
    ASSERT_TRUE(shard_.run_until([&] { return shard_.gate().count() == 0; },
                                 system_clock().now_ns() + 60 * kSecond_ns));
  }

  runtime::Shard shard_{system_clock(), {.ops_max = 100}};
  KeyTurns turns_{shard_};
  std::vector<std::string> done_;
  size_t refused_ = 0;
};

// Writes down when it has the turn, and when it gives it.
Task<> work(runtime::Shard& shard, KeyTurns& turns, std::string_view key, std::string name,
            std::vector<std::string>& done, size_t& refused) {
  const bool has_turn = co_await turns.take(key);
  if (!has_turn) {
    ++refused;
    co_return;
  }
  done.push_back(name + " begins");
  co_await shard.sleep_for(0);
  done.push_back(name + " ends");
  turns.give(key);
}

TEST_F(KeyTurnsTest, those_of_one_key_go_one_behind_the_other_in_their_order) {
  for (const char* const name : {"a", "b", "c"}) {
    shard_.spawn(work(shard_, turns_, "key", name, done_, refused_));
  }
  run();
  EXPECT_EQ(done_,
            (std::vector<std::string>{"a begins", "a ends", "b begins", "b ends", "c begins", "c ends"}));
}

TEST_F(KeyTurnsTest, those_of_other_keys_do_not_wait) {
  shard_.spawn(work(shard_, turns_, "key", "a", done_, refused_));
  shard_.spawn(work(shard_, turns_, "other", "b", done_, refused_));
  EXPECT_EQ(done_, (std::vector<std::string>{"a begins", "b begins"}));
  run();
  // A key whose turn was given back is as one that nothing has changed.
  shard_.spawn(work(shard_, turns_, "key", "c", done_, refused_));
  EXPECT_EQ(done_.back(), "c begins");
  run();
}

TEST_F(KeyTurnsTest, a_thousand_are_done_without_a_thousand_frames_on_the_stack_or_refused) {
  for (int i = 0; i < 1000; ++i) shard_.spawn(work(shard_, turns_, "key", "one", done_, refused_));
  run();
  EXPECT_EQ(done_.size(), 2 * 101U) << "one has the turn, and a hundred wait";
  EXPECT_EQ(refused_, 899U);
}

TEST_F(KeyTurnsTest, one_that_was_dropped_takes_no_turn) {
  ASSERT_TRUE(runtime::block_on(shard_, turns_.take("key")));
  {
    Task<bool> waits = turns_.take("key");
    waits.start();
    EXPECT_FALSE(waits.done());
  }
  turns_.give("key");
  EXPECT_TRUE(runtime::block_on(shard_, turns_.take("key")));
  turns_.give("key");
}

}  // namespace
}  // namespace refract::doors::redis
