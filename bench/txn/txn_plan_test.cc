// SPDX-License-Identifier: Apache-2.0
// The generator of transactions: the shares of its mix, which entries it draws, and what each does to the
// sum. Some 0.2 s.
#include "bench/txn/txn_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace refract::bench {
namespace {

constexpr uint64_t kDrawn = 200'000;

TxnMix bank(uint64_t accounts) {
  return {.workload = TxnWorkload::kSmallBank, .groups = accounts, .value_bytes = 8};
}

double percent(uint64_t part) {
  return 100 * static_cast<double>(part) / static_cast<double>(kDrawn);
}

TEST(SmallBank, draws_its_six_transactions_in_the_published_shares) {
  const TxnPlans plans(bank(1'000));
  Prng prng(1);
  std::map<TxnAct, uint64_t> drawn;
  for (uint64_t i = 0; i < kDrawn; ++i) ++drawn[plans.next(prng).act];
  EXPECT_EQ(drawn.size(), 6u);
  EXPECT_NEAR(percent(drawn[TxnAct::kSendPayment]), 25, 0.5);
  for (const TxnAct act : {TxnAct::kAmalgamate, TxnAct::kBalance, TxnAct::kDepositChecking,
                           TxnAct::kTransactSavings, TxnAct::kWriteCheck}) {
    EXPECT_NEAR(percent(drawn[act]), 15, 0.5) << text(act);
  }
}

// 4 % of the accounts have 90 % of the transactions, and their share of the others, which take any.
TEST(SmallBank, takes_all_accounts_of_nine_in_ten_transactions_from_the_hot_ones) {
  const TxnMix mix = bank(1'000);
  const TxnPlans plans(mix);
  Prng prng(2);
  uint64_t hot = 0;
  uint64_t mixed = 0;
  for (uint64_t i = 0; i < kDrawn; ++i) {
    const TxnPlan plan = plans.next(prng);
    const auto is_hot = [&](uint64_t entry) { return mix.group_of(entry) < 40; };
    const auto count = std::ranges::count_if(plan.read(), is_hot);
    hot += static_cast<size_t>(count) == plan.count ? 1 : 0;
    mixed += count != 0 && static_cast<size_t>(count) != plan.count ? 1 : 0;
  }
  EXPECT_NEAR(percent(hot), 90 + 10 * (0.6 * 0.04 + 0.4 * 0.04 * 0.04), 0.5);
  EXPECT_NEAR(percent(mixed), 10 * 0.4 * 2 * 0.04 * 0.96, 0.1);
}

TEST(SmallBank, takes_two_accounts_that_differ_also_of_two_alone) {
  const TxnPlans plans(bank(2));
  Prng prng(3);
  for (uint64_t i = 0; i < 1'000; ++i) {
    const TxnPlan plan = plans.next(prng);
    const std::set<uint64_t> entries(plan.read().begin(), plan.read().end());
    EXPECT_EQ(entries.size(), plan.count);
    EXPECT_LT(*entries.rbegin(), 4u);
  }
}

// What is written adds up to what was read and what was gained; entries that are not written are as before.
TEST(SmallBank, says_what_comes_in_and_goes_out) {
  const TxnPlans plans(bank(100));
  Prng prng(4);
  for (uint64_t i = 0; i < 10'000; ++i) {
    const TxnPlan plan = plans.next(prng);
    std::vector<int64_t> amounts(plan.count);
    for (int64_t& amount : amounts) amount = static_cast<int64_t>(prng.below(2'000)) - 200;
    const std::vector<int64_t> before = amounts;
    const TxnEffect effect = bench::apply(plan, amounts);
    const auto sum_of = [](const std::vector<int64_t>& all) {
      return std::accumulate(all.begin(), all.end(), int64_t{0});
    };
    EXPECT_EQ(sum_of(amounts), sum_of(before) + effect.gained) << text(plan.act);
    EXPECT_TRUE(!effect.is_refused || amounts == before);
    for (size_t entry = 0; entry < plan.count; ++entry) {
      EXPECT_TRUE(plan.writes(entry) || amounts[entry] == before[entry]) << text(plan.act);
    }
  }
}

TEST(SmallBank, refuses_a_payment_without_money_and_fines_a_check) {
  const TxnPlan payment{.act = TxnAct::kSendPayment, .count = 2};
  std::array<int64_t, 2> poor = {499, 0};
  EXPECT_TRUE(bench::apply(payment, poor).is_refused);
  std::array<int64_t, 2> rich = {500, 0};
  EXPECT_FALSE(bench::apply(payment, rich).is_refused);
  EXPECT_EQ(rich[1], 500);
  const TxnPlan cheque{.act = TxnAct::kWriteCheck, .count = 2};
  std::array<int64_t, 2> overdrawn = {100, 399};
  EXPECT_EQ(bench::apply(cheque, overdrawn).gained, -600);
  std::array<int64_t, 2> covered = {100, 400};
  EXPECT_EQ(bench::apply(cheque, covered).gained, -500);
}

TEST(YcsbT, takes_keys_that_differ_and_adds_one_to_each) {
  const TxnPlans plans({.groups = 4, .keys_each = 4, .skew = 1.5});
  Prng prng(5);
  for (uint64_t i = 0; i < 1'000; ++i) {
    const TxnPlan plan = plans.next(prng);
    const std::set<uint64_t> entries(plan.read().begin(), plan.read().end());
    ASSERT_EQ(entries.size(), 4u);
    std::array<int64_t, 4> amounts = {1, 2, 3, 4};
    EXPECT_EQ(bench::apply(plan, amounts).gained, 4);
    EXPECT_EQ(amounts, (std::array<int64_t, 4>{2, 3, 4, 5}));
  }
}

TEST(YcsbT, draws_keys_by_the_law_that_it_is_given) {
  const TxnPlans plans({.groups = 100, .keys_each = 1, .skew = 1});
  Prng prng(6);
  std::vector<uint64_t> drawn(100);
  for (uint64_t i = 0; i < kDrawn; ++i) ++drawn[plans.next(prng).entries[0]];
  const double all = 5.187;  // 1 + 1/2 + ... + 1/100.
  EXPECT_NEAR(percent(drawn[0]), 100 / all, 0.5);
  EXPECT_NEAR(percent(drawn[9]), 10 / all, 0.2);
}

TEST(TxnPlans, go_over_nodes_as_often_as_asked) {
  const auto node_of = [](uint64_t group) { return static_cast<uint32_t>(group % 5); };
  for (const double share : {0.0, 0.1, 1.0}) {
    for (const TxnWorkload workload : {TxnWorkload::kYcsbT, TxnWorkload::kSmallBank}) {
      const TxnMix mix{.workload = workload, .groups = 1'000, .far_share = share};
      const TxnPlans plans(mix, node_of);
      Prng prng(7);
      uint64_t of_two = 0;
      uint64_t far = 0;
      for (uint64_t i = 0; i < kDrawn / 4; ++i) {
        const TxnPlan plan = plans.next(prng);
        const uint64_t first = mix.group_of(plan.entries[0]);
        const uint64_t last = mix.group_of(plan.entries[plan.count - 1]);
        of_two += first != last ? 1 : 0;
        far += node_of(first) != node_of(last) ? 1 : 0;
      }
      EXPECT_NEAR(static_cast<double>(far) / static_cast<double>(of_two), share, 0.01) << text(workload);
    }
  }
}

TEST(TxnValues, tell_what_was_never_written) {
  std::vector<std::byte> value(64);
  write_amount(value, -17);
  int64_t amount = 0;
  EXPECT_TRUE(read_amount(value, 64, amount));
  EXPECT_EQ(amount, -17);
  EXPECT_FALSE(read_amount(value, 63, amount));
  value[60] ^= std::byte{1};
  EXPECT_FALSE(read_amount(value, 64, amount));
}

TEST(TxnKeys, differ_and_have_one_tag_for_both_entries_of_an_account) {
  const TxnMix mix = bank(1'000);
  std::set<std::string> keys;
  for (uint64_t entry = 0; entry < mix.entries(); ++entry) {
    const TxnKey key = txn_key(mix, entry);
    keys.emplace(key.data(), key.size());
  }
  EXPECT_EQ(keys.size(), 2'000u);
  const TxnKey savings = txn_key(mix, 14);
  const TxnKey checking = txn_key(mix, 15);
  EXPECT_EQ(std::string(savings.data(), 16), "s{0000000000007}");
  EXPECT_EQ(std::string(checking.data(), 16), "c{0000000000007}");
}

}  // namespace
}  // namespace refract::bench
