// SPDX-License-Identifier: Apache-2.0
// The order of a tag's operations, over the schedules of docs/design/077 that are about it: their numbers
// stand in the names.
#include "refract/kv/owner/numbered/tag_bars.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "refract/base/prng.h"

namespace refract::kv {
namespace {

constexpr uint32_t kTag = 7;

enum class BarMet : uint8_t { kRoom, kNoRoom, kNoRoomYet };  // kNoRoomYet: it waits.
enum class BarTold : uint8_t { kExecuted, kRefused, kNothing };

// An owner with its bars, one place for what waits, and what a client was not told yet.
struct BarOwner {
  TagBars bars;
  std::optional<uint64_t> waiting;
  std::vector<uint64_t> executed;

  BarTold look_at(uint64_t number, BarMet found = BarMet::kRoom, uint32_t tag = kTag) {
    const bool is_refused = !bars.passes(tag, number) || found == BarMet::kNoRoom;
    if (is_refused || found == BarMet::kNoRoomYet) {
      EXPECT_TRUE(bars.add(tag, number));
      if (is_refused) return BarTold::kRefused;
      waiting = number;
      return BarTold::kNothing;
    }
    bars.take_out(tag, number);
    executed.push_back(number);
    return BarTold::kExecuted;
  }
  BarTold memory_comes(BarMet found = BarMet::kRoom) {
    if (!waiting) return BarTold::kNothing;
    const uint64_t number = *waiting;
    waiting.reset();
    return look_at(number, found);
  }
  void withdraw(uint64_t number) {
    if (waiting == number) waiting.reset();
    bars.take_out(kTag, number);
  }
  void connection_ends() {
    waiting.reset();
    bars.clear();
  }
};

using InOrder = std::vector<uint64_t>;

TEST(TagBars, schedule_1_a_bar_has_all_that_were_refused_and_not_the_first_alone) {
  BarOwner owner;
  EXPECT_EQ(owner.look_at(1, BarMet::kNoRoomYet), BarTold::kNothing);
  EXPECT_EQ(owner.look_at(2), BarTold::kRefused);
  EXPECT_EQ(owner.memory_comes(), BarTold::kExecuted);
  EXPECT_EQ(owner.look_at(3), BarTold::kRefused) << "2 has no outcome yet";
  EXPECT_EQ(owner.look_at(3), BarTold::kRefused) << "again, which changes nothing";
  EXPECT_EQ(owner.bars.numbers(), 2u);
  EXPECT_EQ(owner.look_at(2), BarTold::kExecuted);
  EXPECT_EQ(owner.look_at(3), BarTold::kExecuted);
  EXPECT_EQ(owner.look_at(4), BarTold::kExecuted);
  EXPECT_EQ(owner.executed, (InOrder{1, 2, 3, 4}));
  EXPECT_TRUE(owner.bars.empty());
}

TEST(TagBars, schedule_6_what_is_given_up_is_withdrawn_and_those_behind_it_keep_their_order) {
  BarOwner owner;
  EXPECT_EQ(owner.look_at(1, BarMet::kNoRoom), BarTold::kRefused);
  EXPECT_EQ(owner.look_at(2), BarTold::kRefused);
  owner.withdraw(1);
  EXPECT_EQ(owner.look_at(3), BarTold::kRefused) << "behind 2";
  EXPECT_EQ(owner.look_at(2), BarTold::kExecuted);
  EXPECT_EQ(owner.look_at(3), BarTold::kExecuted);
  EXPECT_EQ(owner.executed, (InOrder{2, 3}));

  EXPECT_EQ(owner.look_at(4, BarMet::kNoRoomYet), BarTold::kNothing);
  owner.withdraw(4);
  EXPECT_EQ(owner.memory_comes(), BarTold::kNothing);
  EXPECT_EQ(owner.look_at(5), BarTold::kExecuted) << "no bar for ever";
  EXPECT_EQ(owner.executed, (InOrder{2, 3, 5}));
}

TEST(TagBars, schedule_40_all_of_a_client_that_leaves_are_withdrawn) {
  BarOwner owner;
  for (const uint64_t number : {1U, 2U, 3U})
    EXPECT_EQ(owner.look_at(number, BarMet::kNoRoom), BarTold::kRefused);
  for (const uint64_t number : {3U, 1U, 2U}) owner.withdraw(number);
  owner.withdraw(2);
  EXPECT_TRUE(owner.bars.empty());
  EXPECT_EQ(owner.bars.numbers(), 0u);
  EXPECT_EQ(owner.look_at(4), BarTold::kExecuted);
  EXPECT_EQ(owner.executed, InOrder{4});
}

TEST(TagBars, schedule_44_a_call_meets_the_bar_of_the_call_before_and_other_tags_do_not) {
  BarOwner owner;
  EXPECT_EQ(owner.look_at(1, BarMet::kNoRoom), BarTold::kRefused);
  EXPECT_EQ(owner.look_at(2, BarMet::kRoom, kTag + 1), BarTold::kExecuted);
  EXPECT_EQ(owner.look_at(3, BarMet::kRoom, 0), BarTold::kExecuted) << "without a tag";
  EXPECT_EQ(owner.look_at(4), BarTold::kRefused);
  EXPECT_FALSE(owner.bars.passes(kTag, 0)) << "a condition";
  EXPECT_TRUE(owner.bars.passes(kTag + 1, 0));
  EXPECT_EQ(owner.bars.count(), 1u);
  EXPECT_EQ(owner.executed, (InOrder{2, 3}));
}

TEST(TagBars, schedule_45_who_asks_takes_out_what_waits) {
  BarOwner owner;
  EXPECT_EQ(owner.look_at(1, BarMet::kNoRoomYet), BarTold::kNothing);
  EXPECT_EQ(owner.look_at(2), BarTold::kRefused);
  owner.withdraw(1);
  EXPECT_EQ(owner.memory_comes(), BarTold::kNothing) << "it was told: not executed";
  EXPECT_EQ(owner.look_at(2), BarTold::kExecuted);
  EXPECT_EQ(owner.executed, InOrder{2});
}

TEST(TagBars, schedule_46_bars_end_with_the_connection_and_those_not_executed_come_first) {
  BarOwner owner;
  EXPECT_EQ(owner.look_at(1, BarMet::kNoRoomYet), BarTold::kNothing);
  EXPECT_EQ(owner.look_at(2), BarTold::kRefused);
  owner.connection_ends();
  EXPECT_TRUE(owner.bars.empty());
  EXPECT_EQ(owner.memory_comes(), BarTold::kNothing);
  for (const uint64_t number : {1U, 2U, 3U}) EXPECT_EQ(owner.look_at(number), BarTold::kExecuted);
  EXPECT_EQ(owner.executed, (InOrder{1, 2, 3}));
}

TEST(TagBars, a_waiting_one_that_is_refused_stays_in_front) {
  BarOwner owner;
  EXPECT_EQ(owner.look_at(1, BarMet::kNoRoomYet), BarTold::kNothing);
  EXPECT_EQ(owner.look_at(2), BarTold::kRefused);
  EXPECT_EQ(owner.memory_comes(BarMet::kNoRoom), BarTold::kRefused);
  EXPECT_EQ(owner.look_at(2), BarTold::kRefused);
  EXPECT_EQ(owner.look_at(1), BarTold::kExecuted);
  EXPECT_EQ(owner.look_at(2), BarTold::kExecuted);
}

TEST(TagBars, numbers_of_all_bars_together_are_bounded) {
  TagBars bars;
  for (uint64_t number = 1; number <= TagBars::kNumbersMax; ++number) {
    ASSERT_TRUE(bars.add(static_cast<uint32_t>(1 + number % 3), number));
  }
  EXPECT_TRUE(bars.add(1 + 5 % 3, 5)) << "it is there";
  EXPECT_FALSE(bars.add(1, TagBars::kNumbersMax + 1));
  EXPECT_FALSE(bars.add(9, TagBars::kNumbersMax + 1));
  EXPECT_EQ(bars.numbers(), TagBars::kNumbersMax);
  EXPECT_EQ(bars.count(), 3u) << "none was begun for what did not fit";
  EXPECT_TRUE(bars.passes(9, 1));
  bars.take_out(1 + 5 % 3, 5);
  EXPECT_TRUE(bars.add(9, TagBars::kNumbersMax + 1));
}

// A door sends new ones in their order and refused ones whenever it likes, withdraws some, and answers are on
// their way meanwhile; the owner refuses, and lets one wait, by chance.
TEST(TagBars, whatever_is_refused_no_operation_is_executed_behind_a_younger_one) {
  constexpr uint64_t kNumbers = 30;
  for (uint64_t seed = 1; seed <= 2'000; ++seed) {
    Prng prng(seed);
    BarOwner owner;
    std::deque<uint64_t> channel;
    std::vector<uint64_t> refused;
    InOrder withdrawn;
    uint64_t next = 1;
    const auto hear = [&](uint64_t number, BarTold told) {
      if (told == BarTold::kRefused) refused.push_back(number);
    };
    for (int step = 0; step < 10'000; ++step) {
      const bool is_over = next > kNumbers && channel.empty() && refused.empty() && !owner.waiting;
      if (is_over) break;
      const bool is_late = step > 1'000;  // Then all is granted.
      const uint64_t drawn = prng.below(8);
      if (drawn < 2 && next <= kNumbers) {
        channel.push_back(next++);
      } else if (drawn < 4 && !refused.empty()) {
        const auto which = refused.begin() + static_cast<ptrdiff_t>(prng.below(refused.size()));
        const uint64_t number = *which;
        refused.erase(which);
        if (!is_late && prng.below(6) == 0) {
          withdrawn.push_back(number);
          owner.withdraw(number);
        } else {
          channel.push_back(number);
        }
      } else if (drawn == 4) {
        if (const auto number = owner.waiting) {
          hear(*number, owner.memory_comes(is_late || prng.below(2) == 0 ? BarMet::kRoom : BarMet::kNoRoom));
        }
      } else if (!channel.empty()) {
        const uint64_t number = channel.front();
        channel.pop_front();
        const bool may_wait = !owner.waiting;
        const uint64_t luck = is_late ? 9 : prng.below(6);
        const BarMet found = luck == 0 && may_wait ? BarMet::kNoRoomYet
                             : luck <= 1           ? BarMet::kNoRoom
                                                   : BarMet::kRoom;
        hear(number, owner.look_at(number, found));
      }
    }
    ASSERT_TRUE(std::ranges::is_sorted(owner.executed, std::less_equal<>())) << "seed " << seed;
    ASSERT_EQ(owner.executed.size() + withdrawn.size(), kNumbers) << "seed " << seed;
    ASSERT_TRUE(owner.bars.empty()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace refract::kv
