// SPDX-License-Identifier: Apache-2.0
// Transactions over several nodes under everything that the simulator can do to each of them, to their
// clients and to the network, judged by the checker of strict serialisability.
//
//   nodes_transactions_test                         the ordinary run
//   REFRACT_SEED=S nodes_transactions_test          one seed, replayed
//   REFRACT_SEEDS=N nodes_transactions_test         as many as wanted, from REFRACT_SEED on if that is given
//
// Seeds that once failed stand in regressions.txt.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/campaign/conviction.h"
#include "tests/campaign/fault_counts.h"
#include "tests/nodes_transactions/nodes_campaign.h"

namespace refract::campaign {
namespace {

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Fewer, as under a sanitizer, cannot meet everything.
constexpr bool kIsFull = REFRACT_CAMPAIGN_SEEDS >= 100;
constexpr uint64_t kSeedsAgain = kIsFull ? 8 : 2;

std::string describe(const NodesOutcome& outcome) {
  const TransactionOutcome& clients = outcome.clients;
  const LineCounts& lines = outcome.lines;
  const NodesChaos::Counts& chaos = outcome.chaos;
  return fmt::format(
      "history {} committed {} refused {} conflicts {} conditions {} unknown {} learned {} read only {} "
      "batches {} plain {} direct {} stalled {} asked {} remote {} views {} listed {} evicted {} judged {} "
      "splits {} words observed {} demands {} deaths {} crashes {} in recovery {} reopened {} overdue {} "
      "orphaned {} lost {}; lines: looks {} demands {} gone {} lost {} reopened {} open {} happened {} "
      "never {} not gone {}; kills {} strikes {} pauses {} cuts {} cut off {} closed {}; far prepared {} "
      "decided {} "
      "adopted {} reads beside {} leases {} lingered {} away {}",
      clients.transactions, clients.committed, clients.refused, clients.conflicts, clients.conditions,
      clients.unknown, clients.learned, clients.read_only, clients.batches, clients.plain, clients.direct,
      clients.stalled, clients.asked, clients.remote, clients.views, clients.listed, clients.evicted,
      clients.evicted_judged, clients.splits, clients.words_observed, clients.demands, clients.deaths,
      clients.crashes, clients.recoveries_killed, clients.reopened, clients.overdue, clients.orphaned,
      outcome.lost_calls, lines.looks, lines.demands, lines.gone, lines.lost, lines.reopened, lines.open,
      lines.happened, lines.never, lines.not_gone, chaos.kills, chaos.strikes, chaos.pauses, chaos.cuts,
      chaos.cut_off, chaos.closed, outcome.far_prepared, outcome.far_decided, outcome.adopted,
      outcome.far_reads, clients.leases, outcome.lingered, outcome.away);
}

std::string report(uint64_t seed, const NodesOutcome& outcome) {
  const std::string path = fmt::format("{}nodes-transactions-seed-{}.svg", testing::TempDir(), seed);
  if (!outcome.clients.svg.empty()) std::ofstream(path) << outcome.clients.svg;
  return fmt::format("\n{}{}\nreplay it with REFRACT_SEED={} nodes_transactions_test\n",
                     outcome.clients.picture, outcome.clients.svg.empty() ? "" : "picture: " + path, seed);
}

// The seeds in regressions.txt.
std::vector<uint64_t> seeds_that_failed() {
  std::ifstream file(REFRACT_SOURCE_DIR "/tests/nodes_transactions/regressions.txt");
  EXPECT_TRUE(file.is_open());
  std::vector<uint64_t> seeds;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') seeds.push_back(std::stoull(line));
  }
  return seeds;
}

void expect_everything_happened(const NodesOutcome& all) {
  const TransactionOutcome& clients = all.clients;
  EXPECT_GT(clients.committed, 10'000U);
  EXPECT_GT(clients.conflicts, 1'000U);
  EXPECT_GT(clients.conditions, 1'000U);
  EXPECT_GT(clients.unknown, 100U);
  EXPECT_GT(clients.learned, 50U);
  EXPECT_GT(clients.read_only, 2'000U);
  EXPECT_GT(clients.batches, 5'000U);
  EXPECT_GT(clients.plain, 20'000U);
  EXPECT_GT(clients.stalled, 2'000U);
  EXPECT_GT(clients.asked, 1'000U);
  EXPECT_GT(clients.remote, 5'000U);
  EXPECT_GT(clients.views, 5'000U);
  EXPECT_GT(clients.listed, 3'000U);
  EXPECT_GT(clients.leases, 300U);
  EXPECT_GT(clients.evicted_judged, 500U);
  EXPECT_GT(clients.splits, 5'000U);
  EXPECT_GT(clients.demands, 5'000U);
  EXPECT_GT(clients.deaths, 100U);
  EXPECT_GT(clients.crashes, 1'000U);
  EXPECT_GT(clients.recoveries_killed, 100U);
  EXPECT_GT(clients.reopened, 5'000U);
  EXPECT_GT(clients.overdue, 200U);
  EXPECT_GT(clients.orphaned, 50U);
  EXPECT_GT(all.lost_calls, 100U);
  EXPECT_GT(all.lingered, 500U);
  // Between nodes.
  EXPECT_GT(all.lines.looks, 1'000U);
  EXPECT_GT(all.lines.demands, 1'000U);
  EXPECT_GT(all.lines.gone, 500U);
  EXPECT_GT(all.lines.lost, 100U);
  EXPECT_GT(all.lines.reopened, 1'000U);
  EXPECT_GT(all.lines.open, 500U);
  EXPECT_GT(all.lines.happened, 1'000U);
  EXPECT_GT(all.lines.never, 500U);
  EXPECT_GT(all.lines.not_gone, 10U);
  EXPECT_GT(all.far_prepared, 1'000U);
  EXPECT_GT(all.far_decided, 400U);
  EXPECT_GT(all.far_reads, 300U);
  EXPECT_GT(all.adopted, 300U);
  EXPECT_GT(all.away, 100U);
  EXPECT_GT(all.chaos.kills, 300U);
  EXPECT_GT(all.chaos.strikes, 200U);
  EXPECT_GT(all.chaos.pauses, 500U);
  EXPECT_GT(all.chaos.cuts, 500U);
  EXPECT_GT(all.chaos.cut_off, 500U);
  EXPECT_GT(all.chaos.closed, 500U);
  // A crash behind each store of a far part: no node has a log.
  for (const char* const name :
       {"kv.batch.before_pending", "kv.batch.between_applied", "kv.batch.after_decision",
        "kv.parts.before_record", "kv.parts.unlinked_record"}) {
    const FaultCounts counts = fault_counts(name);
    EXPECT_GE(counts.fired, 1U) << name;
    EXPECT_GT(counts.reached, counts.fired) << name;
  }
}

TEST(NodesCampaign, seeds_that_once_failed_pass) {
  for (const uint64_t seed : seeds_that_failed()) {
    const NodesOutcome outcome = run_nodes(seed);
    EXPECT_EQ(outcome.clients.wrong, "") << report(seed, outcome);
  }
}

TEST(NodesCampaign, every_history_is_strictly_serialisable) {
  const uint64_t only = number_from_environment("REFRACT_SEED", 0);
  const uint64_t first = only == 0 ? 1 : only;
  const uint64_t count = number_from_environment("REFRACT_SEEDS", only == 0 ? REFRACT_CAMPAIGN_SEEDS : 1);
  NodesOutcome all;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const NodesOutcome outcome = run_nodes(seed);
    ASSERT_EQ(outcome.clients.wrong, "") << report(seed, outcome);
    all.add(outcome);
  }
  SCOPED_TRACE(describe(all));
  if (kIsFull && count >= REFRACT_CAMPAIGN_SEEDS) expect_everything_happened(all);
  RecordProperty("what_happened", describe(all));
  if (std::getenv("REFRACT_TELL") != nullptr) fmt::print("{}\n", describe(all));
}

TEST(NodesCampaign, a_seed_gives_the_same_run_again) {
  for (uint64_t seed = 1; seed <= kSeedsAgain; ++seed) {
    const NodesOutcome one = run_nodes(seed);
    const NodesOutcome two = run_nodes(seed);
    EXPECT_EQ(one.clients.trace_hash, two.clients.trace_hash) << "seed " << seed;
    EXPECT_EQ(describe(one), describe(two)) << "seed " << seed;
  }
  EXPECT_NE(run_nodes(1).clients.trace_hash, run_nodes(2).clients.trace_hash);
}

class NodesMutations : public testing::TestWithParam<MutationRow> {};

// The first seed that convicts each, for the table in NOTES.md.
TEST_P(NodesMutations, is_found) {
  if (!kIsFull) GTEST_SKIP() << "the seeds that a sanitizer has time for are too few";
  const auto seed_of = [](uint64_t number) {
    return (GetParam().first_seed + number - 2) % REFRACT_CAMPAIGN_SEEDS + 1;
  };
  const Conviction conviction = convict(REFRACT_CAMPAIGN_SEEDS, [&](uint64_t number) {
    return run_nodes(seed_of(number), GetParam().mutation).clients.wrong;
  });
  EXPECT_NE(conviction.sentence, "") << GetParam().name << " was not found by " << conviction.seed
                                     << " seeds";
  fmt::print("{} | {} | {}\n", GetParam().name, seed_of(conviction.seed), conviction.sentence);
}

INSTANTIATE_TEST_SUITE_P(All, NodesMutations, testing::ValuesIn(kNodesMutations),
                         [](const auto& mutation) { return std::to_string(mutation.index); });

}  // namespace
}  // namespace refract::campaign
