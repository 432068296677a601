// SPDX-License-Identifier: Apache-2.0
// Transactions of ours and of published protocols under their workloads: that sums are right, and that a run
// whose sum is not, or whose transactions do not end, is an error. Some 3 s, most of them for nodes that
// start.
#include "bench/txn/txn_load.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>

#include "bench/txn/txn_results.h"
#include "bench/txn/txn_side.h"

#include "refract/txn/designs/designs.h"

namespace refract::bench {
namespace {

// Few keys and many clients, so that transactions meet.
TxnLoad small(TxnWorkload workload, TxnProvider provider, const std::string& design) {
  TxnLoad load;
  load.mix.workload = workload;
  load.mix.groups = workload == TxnWorkload::kYcsbT ? 50 : 200;
  load.provider = provider;
  load.designs = {design};
  load.clients = 8;
  load.seconds = provider == TxnProvider::kSim ? 0.0005 : 0.05;
  load.rounds = 2;
  return load;
}

class EachTxnWorkload : public testing::TestWithParam<std::tuple<TxnWorkload, std::string>> {};

// The same seed twice is the same run, whichever sides stand beside it.
TEST_P(EachTxnWorkload, is_right_and_the_same_again_on_the_simulator) {
  const TxnLoad load = small(std::get<0>(GetParam()), TxnProvider::kSim, std::get<1>(GetParam()));
  const Reported<TxnResult> result = run_txn_load(load);
  ASSERT_TRUE(result) << result.error().what;
  ASSERT_EQ(result->sides.size(), 1u);
  const TxnSideResult& side = result->sides.front();
  EXPECT_EQ(side.rates.size(), 2u);
  EXPECT_GT(side.all.committed, 50u);
  EXPECT_GT(side.all.attempts, side.all.ended()) << "nothing has met";
  EXPECT_EQ(side.sum, initial_sum(load.mix) + side.all.gained);
  const Reported<TxnResult> again = run_txn_load(load);
  ASSERT_TRUE(again) << again.error().what;
  EXPECT_EQ(again->sides.front().rates, side.rates);
}

INSTANTIATE_TEST_SUITE_P(All, EachTxnWorkload,
                         testing::Combine(testing::Values(TxnWorkload::kYcsbT, TxnWorkload::kSmallBank),
                                          testing::Values("ours", "prism-tx", "farm", "farm-apart")),
                         [](const auto& tested) {
                           std::string name =
                               std::string(text(std::get<0>(tested.param))) + "_" + std::get<1>(tested.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(TxnLoads, of_several_shards_and_nodes_have_the_right_sum) {
  for (const TxnWorkload workload : {TxnWorkload::kYcsbT, TxnWorkload::kSmallBank}) {
    TxnLoad load = small(workload, TxnProvider::kSim, "ours");
    load.shards = 2;
    load.nodes = 3;
    load.mix.far_share = 0.5;
    load.mix.groups = 500;
    const Reported<TxnResult> result = run_txn_load(load);
    ASSERT_TRUE(result) << result.error().what;
    EXPECT_GT(result->sides.front().all.committed, 100u);
  }
}

TEST(TxnLoads, fail_where_a_change_was_not_counted) {
  for (const std::string design : {"ours", "prism-tx"}) {
    TxnLoad load = small(TxnWorkload::kSmallBank, TxnProvider::kSim, design);
    load.before_sum = [](TxnSide& side) -> Reported<> {
      static constexpr auto kDeposit = [](TxnClient& client, bool& is_done) -> runtime::Task<> {
        TxnPlan plan;
        plan.act = TxnAct::kDepositChecking;
        plan.count = 1;
        plan.entries[0] = 1;
        const TxnAnswer answer = co_await client.execute(plan, kSecond_ns);
        is_done = answer.code == Code::kOk;
      };
      bool is_done = false;
      side.spawn(0, kDeposit(side.client(0), is_done));
      if (side.run_until([&] { return is_done; })) return {};
      return report(Code::kSystem, "the deposit never ended");
    };
    const Reported<TxnResult> result = run_txn_load(load);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::kCorrupt) << result.error().what;
    EXPECT_NE(result.error().what.find("add up to"), std::string::npos) << result.error().what;
  }
}

// Reads and puts without a transaction lose what other clients put in between.
TEST(TxnLoads, fail_where_transactions_are_none) {
  TxnLoad load = small(TxnWorkload::kYcsbT, TxnProvider::kShm, "ours");
  load.mix.groups = 4;
  load.is_plain = true;
  const Reported<TxnResult> result = run_txn_load(load);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kCorrupt) << result.error().what;
  load.is_plain = false;
  const Reported<TxnResult> right = run_txn_load(load);
  EXPECT_TRUE(right) << right.error().what;
}

TEST(TxnLoads, fail_where_a_transaction_does_not_commit_in_its_time) {
  TxnLoad load = small(TxnWorkload::kYcsbT, TxnProvider::kSim, "farm");
  load.mix.groups = 2;
  load.patience_ns = 10 * kMicrosecond_ns;
  const Reported<TxnResult> result = run_txn_load(load);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kConflict) << result.error().what;
  EXPECT_NE(result.error().what.find("did not commit within their time"), std::string::npos);
}

TEST(TxnLoads, say_what_cannot_be) {
  TxnLoad load;
  load.nodes = 2;
  EXPECT_FALSE(check(load));
  load.provider = TxnProvider::kSim;
  EXPECT_TRUE(check(load));
  load.mix.far_share = 0.1;
  EXPECT_TRUE(check(load));
  load.nodes = 1;
  EXPECT_FALSE(check(load));
  load.mix.far_share = -1;
  load.mix.value_bytes = 16'384;
  EXPECT_TRUE(check(load));
  load.designs = {"ours", "farm"};
  EXPECT_FALSE(check(load));
  load.mix.value_bytes = 8'192;
  EXPECT_TRUE(check(load));
  load.mix.groups = 3;
  load.mix.keys_each = 4;
  EXPECT_FALSE(check(load));
}

}  // namespace
}  // namespace refract::bench
