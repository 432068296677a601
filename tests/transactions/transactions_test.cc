// SPDX-License-Identifier: Apache-2.0
// Transactions over several shards under everything that the simulator can do to their node, their clients
// and the network, judged by the checker of strict serialisability.
//
//   transactions_test                               the ordinary run
//   REFRACT_SEED=S transactions_test                one seed, replayed
//   REFRACT_SEEDS=N transactions_test               as many as wanted, from REFRACT_SEED on if that is given
//
// Seeds that once failed stand in regressions.txt.
#include "tests/transactions/transactions.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/campaign/conviction.h"
#include "tests/campaign/fault_counts.h"

namespace refract::campaign {
namespace {

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Fewer, as under a sanitizer, cannot meet everything.
constexpr bool kIsFull = REFRACT_CAMPAIGN_SEEDS >= 200;

// Each kind of run is among them.
constexpr uint64_t kSeedsAgain = kIsFull ? 12 : 2;

std::string describe(const TransactionOutcome& outcome) {
  return fmt::format(
      "history {} committed {} refused {} conflicts {} conditions {} unknown {} learned {} with rows {} rows "
      "{} "
      "read only {} "
      "batches {} plain {} direct {} stalled {} asked {} remote {} views {} listed {} leases {} evicted {} "
      "judged {} "
      "splits {} words observed {} demands {} deaths {} "
      "crashes {} in recovery {} reopened {} sent twice {} late {} overdue {} orphaned {} "
      "filled {} host deaths {} records {} undone {} lost {} cut {} without room {} settled in fills {} "
      "taken back {} unjudged {}",
      outcome.transactions, outcome.committed, outcome.refused, outcome.conflicts, outcome.conditions,
      outcome.unknown, outcome.learned, outcome.learned_with_rows, outcome.rows, outcome.read_only,
      outcome.batches, outcome.plain, outcome.direct, outcome.stalled, outcome.asked, outcome.remote,
      outcome.views, outcome.listed, outcome.leases, outcome.evicted, outcome.evicted_judged, outcome.splits,
      outcome.words_observed, outcome.demands, outcome.deaths, outcome.crashes, outcome.recoveries_killed,
      outcome.reopened, outcome.sent_twice, outcome.late_decisions, outcome.overdue, outcome.orphaned,
      outcome.filled, outcome.host_deaths, outcome.log.records, outcome.log.taken_back, outcome.log.lost,
      outcome.log.cut, outcome.log.refused, outcome.settled_in_fills, outcome.taken_back, outcome.unjudged);
}

std::string report(uint64_t seed, const TransactionOutcome& outcome) {
  const std::string path = fmt::format("{}transactions-seed-{}.svg", testing::TempDir(), seed);
  if (!outcome.svg.empty()) std::ofstream(path) << outcome.svg;
  return fmt::format("\n{}{}\nreplay it with REFRACT_SEED={} transactions_test\n", outcome.picture,
                     outcome.svg.empty() ? "" : "picture: " + path, seed);
}

// The seeds in regressions.txt.
std::vector<uint64_t> seeds_that_failed() {
  std::ifstream file(REFRACT_SOURCE_DIR "/tests/transactions/regressions.txt");
  EXPECT_TRUE(file.is_open());
  std::vector<uint64_t> seeds;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') seeds.push_back(std::stoull(line));
  }
  return seeds;
}

TEST(TransactionCampaign, seeds_that_once_failed_pass) {
  for (const uint64_t seed : seeds_that_failed()) EXPECT_EQ(run_transactions({.seed = seed}).wrong, "");
}

void expect_everything_happened(const TransactionOutcome& all) {
  EXPECT_GT(all.committed, 10'000U);
  EXPECT_GT(all.conflicts, 1'000U);
  EXPECT_GT(all.conditions, 1'000U);
  EXPECT_GT(all.unknown, 50U);
  EXPECT_GT(all.learned, 50U);
  EXPECT_GT(all.learned_with_rows, 5U);
  EXPECT_GT(all.rows, 2'000U);
  EXPECT_GT(all.read_only, 1'000U);
  EXPECT_GT(all.batches, 1'000U);
  EXPECT_GT(all.stalled, 1'000U);
  EXPECT_GT(all.asked, 100U);
  EXPECT_GT(all.remote, 1'000U);
  EXPECT_GT(all.views, 1'000U);
  EXPECT_GT(all.listed, 1'000U);
  EXPECT_GT(all.leases, 400U);
  EXPECT_GT(all.evicted_judged, 1'000U);
  EXPECT_GT(all.splits, 1'000U);
  EXPECT_GT(all.words_observed, 1'000U);
  EXPECT_GT(all.demands, 1'000U);
  EXPECT_GT(all.deaths, 50U);
  EXPECT_GT(all.crashes, 300U + REFRACT_CAMPAIGN_SEEDS);
  EXPECT_GT(all.recoveries_killed, 100U);
  EXPECT_GT(all.reopened, 1'000U);
  EXPECT_GT(all.sent_twice, 1'000U);
  EXPECT_GT(all.late_decisions, 500U);
  EXPECT_GT(all.overdue, 5U);
  EXPECT_GT(all.orphaned, 100U);
  EXPECT_GT(all.filled, 50U);
  EXPECT_GT(all.host_deaths, 100U);
  EXPECT_GT(all.log.taken_back, 300U);
  EXPECT_GT(all.log.lost, 1'000U);
  EXPECT_GT(all.log.cut, 500U);
  EXPECT_GT(all.log.refused, 1'000U);
  EXPECT_GT(all.settled_in_fills, 20U);
  EXPECT_GT(all.taken_back, 300U);
  // A crash behind each store of a transaction, and between what its log is told. In the recovery from one it
  // falls between any two stores. "kv.batch.before_settled" and "before_decision" are of batches of one
  // shard, whose owners the store's campaign kills there.
  for (const char* const name :
       {"kv.batch.before_pending", "kv.batch.between_applied", "kv.batch.after_decision", "kv.parts.claimed",
        "kv.parts.logged", "kv.parts.settled"}) {
    const FaultCounts counts = fault_counts(name);
    EXPECT_GE(counts.fired, 1U) << name;
    EXPECT_GT(counts.reached, counts.fired) << name;
  }
}

TEST(TransactionCampaign, every_history_is_strictly_serialisable_and_nothing_is_left_at_the_end) {
  const uint64_t only = number_from_environment("REFRACT_SEED", 0);
  const uint64_t first = only == 0 ? 1 : only;
  const uint64_t count = number_from_environment("REFRACT_SEEDS", only == 0 ? REFRACT_CAMPAIGN_SEEDS : 1);
  TransactionOutcome all;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const TransactionOutcome outcome = run_transactions({.seed = seed});
    ASSERT_EQ(outcome.wrong, "") << report(seed, outcome);
    all.add(outcome);
  }
  SCOPED_TRACE(describe(all));
  if (kIsFull && count >= REFRACT_CAMPAIGN_SEEDS) expect_everything_happened(all);
  RecordProperty("what_happened", describe(all));
}

TEST(TransactionCampaign, a_seed_gives_the_same_run_again) {
  for (uint64_t seed = 1; seed <= kSeedsAgain; ++seed) {
    const TransactionOutcome one = run_transactions({.seed = seed});
    const TransactionOutcome two = run_transactions({.seed = seed});
    EXPECT_EQ(one.trace_hash, two.trace_hash) << "seed " << seed;
    EXPECT_EQ(describe(one), describe(two)) << "seed " << seed;
  }
  EXPECT_NE(run_transactions({.seed = 1}).trace_hash, run_transactions({.seed = 2}).trace_hash);
}

class TransactionMutations : public testing::TestWithParam<MutationRow> {};

// The first seed that convicts each, for the table in NOTES.md.
TEST_P(TransactionMutations, is_found) {
  if (!kIsFull) GTEST_SKIP() << "the seeds that a sanitizer has time for are too few";
  const auto seed_of = [](uint64_t number) {
    return (GetParam().first_seed + number - 2) % REFRACT_CAMPAIGN_SEEDS + 1;
  };
  const Conviction conviction = convict(REFRACT_CAMPAIGN_SEEDS, [&](uint64_t number) {
    return run_transactions({.seed = seed_of(number), .mutation = GetParam().mutation}).wrong;
  });
  EXPECT_NE(conviction.sentence, "") << GetParam().name << " was not found by " << conviction.seed
                                     << " seeds";
  fmt::print("{} | {} | {}\n", GetParam().name, seed_of(conviction.seed), conviction.sentence);
}

INSTANTIATE_TEST_SUITE_P(All, TransactionMutations, testing::ValuesIn(kTransactionMutations),
                         [](const auto& mutation) { return std::to_string(mutation.index); });
INSTANTIATE_TEST_SUITE_P(AllOfLogs, TransactionMutations, testing::ValuesIn(kTransactionLogMutations),
                         [](const auto& mutation) { return std::to_string(mutation.index); });

}  // namespace
}  // namespace refract::campaign
