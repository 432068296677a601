// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/wide_pins.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "refract/base/prng.h"
#include "refract/memory/remote_visible.h"

namespace refract {
namespace {

class WidePinsTest : public testing::Test {
 protected:
  static constexpr size_t kMore = 3;

  WidePinsTest() {
    // Memory that no writer has cleared yet.
    for (PinTable& table : more_) std::fill_n(reinterpret_cast<uint64_t*>(&table), 512, ~uint64_t{0});
  }
  // As a server does.
  PinSet collected() {
    PinSet pins;
    const uint64_t tables = std::clamp<uint64_t>(observe_u64(&in_use_), 1, 1 + kMore);
    collect_pins(*first_table_, pins);
    for (uint64_t table = 1; table < tables; ++table) collect_pins(more_[table - 1], pins);
    pins.seal();
    return pins;
  }

  std::unique_ptr<PinTable> first_table_ = std::make_unique<PinTable>();
  std::vector<PinTable> more_{kMore};
  uint64_t in_use_ = 0;
  PinWriter first_{first_table_.get()};
  WidePins pins_{first_, {.tables = more_, .in_use = &in_use_}};
};

TEST_F(WidePinsTest, as_many_pins_are_collected_as_all_tables_hold_and_one_more_is_refused) {
  std::set<int> indices;
  for (size_t i = 0; i < pins_.pins_max(); ++i) {
    const int index = pins_.pin({64 * (i + 1)}, i);
    ASSERT_GE(index, 0) << i;
    ASSERT_TRUE(indices.insert(index).second) << "one index twice";
    ASSERT_EQ(collected().size(), i + 1);
  }
  EXPECT_EQ(pins_.pins_max(), (1 + kMore) * kPinsMax);
  EXPECT_EQ(in_use_, 1 + kMore);
  EXPECT_EQ(pins_.pin({8}, 0), -1);
  EXPECT_EQ(pins_.in_use(), pins_.pins_max());
  for (size_t i = 0; i < pins_.pins_max(); ++i) EXPECT_TRUE(collected().contains({64 * (i + 1)}));
  const int some = *std::next(indices.begin(), 700);
  EXPECT_FALSE(pins_.let_go(some));
  EXPECT_EQ(pins_.pin({8}, 0), some);
  EXPECT_EQ(pins_.pin({8}, 0), -1);
  EXPECT_TRUE(collected().contains({8}));
}

// Whatever comes and goes, by which way: what is held is collected, and nothing else.
TEST_F(WidePinsTest, what_is_collected_is_what_is_held) {
  Prng prng(11);
  std::vector<std::pair<int, uint64_t>> held;
  uint64_t next = 0;
  for (int step = 0; step < 30'000; ++step) {
    // In waves, so that tables come into use and are given up.
    const bool grows = step / 2'000 % 2 == 0;
    if (held.empty() || prng.chance(grows ? 0.8 : 0.2)) {
      const uint64_t offset = 64 * ++next;
      const int index = pins_.pin({offset}, next);
      ASSERT_EQ(index < 0, held.size() == pins_.pins_max());
      if (index >= 0) held.emplace_back(index, offset);
    } else {
      const size_t victim = prng.below(held.size());
      if (prng.chance(0.5)) {
        pins_.unpin(held[victim].first);
      } else {
        EXPECT_FALSE(pins_.let_go(held[victim].first));
      }
      held[victim] = held.back();
      held.pop_back();
    }
    if (step % 100 != 0) continue;
    const PinSet seen = collected();
    ASSERT_EQ(seen.size(), held.size());
    for (const auto& [index, offset] : held) ASSERT_TRUE(seen.contains({offset}));
    ASSERT_EQ(pins_.in_use(), held.size());
  }
}

TEST_F(WidePinsTest, tables_that_are_empty_are_given_up_while_others_are_pinned_in) {
  std::vector<int> held;
  for (size_t i = 0; i < pins_.pins_max(); ++i) held.push_back(pins_.pin({64}, 0));
  for (const int index : held) EXPECT_FALSE(pins_.let_go(index));
  for (int i = 0; i < 1'000; ++i) EXPECT_FALSE(pins_.let_go(pins_.pin({64}, 0)));
  EXPECT_EQ(pins_.tables_in_use(), 1U);
  EXPECT_EQ(in_use_, 1U);
}

TEST_F(WidePinsTest, a_table_without_memory_is_not_used) {
  WidePins pins(first_,
                {.tables = more_, .in_use = &in_use_, .take = [](PinTable&) noexcept { return false; }});
  for (size_t i = 0; i < kPinsMax; ++i) ASSERT_GE(pins.pin({64}, 0), 0);
  EXPECT_EQ(pins.pin({64}, 0), -1);
  EXPECT_EQ(in_use_, 1U);
  EXPECT_EQ(more_[0].count, ~uint64_t{0}) << "it was touched";
}

TEST_F(WidePinsTest, one_table_alone_is_enough_and_bounded) {
  WidePins pins(first_);
  for (size_t i = 0; i < kPinsMax; ++i) ASSERT_EQ(pins.pin({64}, 0), static_cast<int>(i));
  EXPECT_EQ(pins.pin({64}, 0), -1);
  pins.unpin(7);
  pins.unpin(300);
  pins.unpin(-1);
  EXPECT_EQ(pins.pin({64}, 0), 7);
}

// Other threads let go of what this one pins; after retire() each of what was held then says so, once.
TEST_F(WidePinsTest, what_is_held_when_it_retires_is_counted_and_each_holder_learns_of_it) {
  std::vector<int> held;
  for (size_t i = 0; i < 600; ++i) held.push_back(pins_.pin({64 * (i + 1)}, 0));
  std::atomic<size_t> told = 0;
  {
    const std::jthread other([&] {
      for (const int index : held) told += pins_.let_go(index) ? 1 : 0;
    });
    const size_t left = pins_.retire();
    EXPECT_LE(left, held.size());
    told.fetch_sub(left);
  }
  EXPECT_EQ(told, 0U);
  EXPECT_TRUE(collected().empty());
}

}  // namespace
}  // namespace refract
