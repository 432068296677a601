// SPDX-License-Identifier: Apache-2.0
// What each published protocol promises of its transactions, and what it does not, judged by the checker of
// strict serialisability over many small worlds (test_campaign.h). All of it takes some 20 s.
//
//   REFRACT_SEED=S txn_designs_test --gtest_filter='*TxnDesign*'     one seed, with its picture
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "refract/base/testing/serialisability/picture.h"
#include "refract/base/testing/turns.h"
#include "refract/txn/designs/test_campaign.h"

namespace refract::txn::designs {
namespace {

using serialisability::Judgement;
using serialisability::Order;

constexpr uint64_t kSeeds = refract::test::turns(150, 6);
constexpr uint64_t kClocksDiffer_ns = 400 * kMicrosecond_ns;

struct Variant {
  const Design* design = nullptr;
  bool steps = false;  // Chains are interleaved operation by operation.
};
void PrintTo(const Variant& variant, std::ostream* out) {
  *out << variant.design->name << (variant.steps ? " step by step" : "");
}
[[nodiscard]] CampaignOptions options_of(const Variant& variant, uint64_t seed) {
  return {.design = variant.design, .seed = seed, .steps = variant.steps};
}

// Of each name how many runs had it.
using Names = std::map<std::string, uint64_t>;

[[nodiscard]] std::string to_text(const CampaignTally& tally, const Names& names) {
  std::string all =
      fmt::format("committed {} read only {} conflicts {} unknown {} killed {} ended {} freed {} runs {};",
                  tally.committed, tally.read_only, tally.conflicts, tally.unknown, tally.killed, tally.ended,
                  tally.freed, tally.most_open_runs);
  for (const auto& [name, count] : names) all += fmt::format(" {} {}", name, count);
  return all;
}

class TxnDesignCampaigns : public testing::TestWithParam<Variant> {
 protected:
  // Each seed once: nothing may be wrong, and of the history as `of` gives it no more may be broken than
  // `may_break`. Nothing: no order at all.
  void expect(const std::function<void(CampaignOptions&)>& change, std::optional<Order> may_break,
              bool halves) {
    const char* only = std::getenv("REFRACT_SEED");
    const uint64_t first = only == nullptr ? 1 : std::strtoull(only, nullptr, 10);
    const uint64_t last = only == nullptr ? kSeeds : first;
    for (uint64_t seed = first; seed <= last; ++seed) {
      CampaignOptions options = options_of(GetParam(), seed);
      change(options);
      Campaign campaign(options);
      ASSERT_EQ(campaign.run(), "") << "REFRACT_SEED=" << seed;
      campaign.add_to(tally_);
      const Judgement whole = serialisability::check(campaign.history());
      if (whole.anomaly) ++names_[whole.anomaly->name];
      const serialisability::History judged = halves ? campaign.halved() : campaign.history();
      const Judgement judgement = halves ? serialisability::check(judged) : whole;
      if (!judgement.anomaly) continue;
      const bool is_allowed = may_break && judgement.broken && *judgement.broken >= *may_break;
      ASSERT_TRUE(is_allowed) << "REFRACT_SEED=" << seed << " " << judgement.anomaly->sentence << "\n"
                              << serialisability::draw_text(judged, *judgement.anomaly);
    }
    fmt::print("{}\n", to_text(tally_, names_));
    RecordProperty("what_happened", to_text(tally_, names_));
  }
  // One seed, or the few that a sanitizer has time for, cannot meet everything.
  [[nodiscard]] static bool are_few() {
    return std::getenv("REFRACT_SEED") != nullptr || refract::test::kIsSanitized;
  }
  [[nodiscard]] static std::optional<Order> broken_by(Isolation isolation) {
    return isolation == Isolation::kStrict ? std::nullopt : std::optional(Order::kRealTime);
  }

  CampaignTally tally_;
  Names names_;
};

TEST_P(TxnDesignCampaigns, with_equal_clocks_transactions_are_isolated_as_the_row_says) {
  const auto some_roles = [](CampaignOptions& options) { options.has_roles = options.seed % 3 == 0; };
  expect(some_roles, broken_by(GetParam().design->isolation), false);
  if (are_few()) return;
  EXPECT_GT(tally_.committed, kSeeds * 30);
  EXPECT_GT(tally_.read_only, kSeeds * 5);
  EXPECT_GT(tally_.conflicts, kSeeds * 5);
  if (GetParam().steps) {
    EXPECT_GT(tally_.most_open_runs, 2U);
  }
}

// What a row does not promise is met: an order that is not that of time.
TEST_P(TxnDesignCampaigns, with_clocks_that_differ_an_order_remains_and_is_not_always_that_of_time) {
  const auto differ = [](CampaignOptions& options) {
    options.clocks_differ_ns = kClocksDiffer_ns;
    options.has_roles = options.seed % 2 == 0;
  };
  expect(differ, broken_by(GetParam().design->isolation_by_any_clocks), false);
  if (are_few()) return;
  EXPECT_GT(tally_.committed, kSeeds * 20);
  if (GetParam().design->isolation_by_any_clocks != Isolation::kStrict) {
    EXPECT_FALSE(names_.empty());
  }
}

// Each written key of a transaction that did not end may have its new value or its old one; that is all that
// is wrong, and it is met. Every key can be written at the end, and no buffer is lost.
TEST_P(TxnDesignCampaigns, a_client_that_is_killed_leaves_what_the_row_says_and_no_key_that_is_held) {
  const bool halves = GetParam().design->after_death == AfterDeath::kHalf;
  expect([](CampaignOptions& options) { options.clients_die = true; },
         broken_by(GetParam().design->isolation), halves);
  if (are_few()) return;
  EXPECT_GT(tally_.killed, kSeeds);
  EXPECT_GT(tally_.freed, kSeeds / 8);
  if (halves) {
    EXPECT_FALSE(names_.empty());
  }
}

// Likewise a client that lives and is only slow: it is ended, and told that it does not know.
TEST_P(TxnDesignCampaigns, a_client_that_is_taken_for_dead_is_told_no_more_than_it_can_rely_on) {
  const bool halves = GetParam().design->after_death == AfterDeath::kHalf;
  expect([](CampaignOptions& options) { options.clients_are_suspected = true; },
         broken_by(GetParam().design->isolation), halves);
  if (are_few()) return;
  EXPECT_GT(tally_.ended, kSeeds);
  EXPECT_GT(tally_.unknown, kSeeds / 8);
}

std::vector<Variant> variants() {
  std::vector<Variant> variants;
  for (const Design& design : all()) variants.push_back({.design = &design, .steps = false});
  variants.push_back({.design = find("prism-tx"), .steps = true});
  return variants;
}

INSTANTIATE_TEST_SUITE_P(All, TxnDesignCampaigns, testing::ValuesIn(variants()), [](const auto& variant) {
  std::string name(variant.param.design->name);
  std::ranges::replace(name, '-', '_');
  return name + (variant.param.steps ? "_step_by_step" : "");
});

}  // namespace
}  // namespace refract::txn::designs
