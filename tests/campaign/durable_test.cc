// SPDX-License-Identifier: Apache-2.0
// The store with a log under rivals that write the same keys, while its server dies and comes back warm, and
// its host dies and the log is cut anywhere behind what the disk had confirmed: what was acknowledged is
// there, judged by the linearizability checker. durable.h says what is judged.
//
//   durable_test                                    the ordinary run
//   REFRACT_SEED=S durable_test                     one seed, replayed
//   REFRACT_SEEDS=N durable_test                    as many as wanted, from REFRACT_SEED on if that is given
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/campaign/conviction.h"
#include "tests/campaign/rivals.h"

namespace refract::campaign {
namespace {

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Fewer, as under a sanitizer, cannot meet everything.
constexpr bool kIsFull = REFRACT_CAMPAIGN_SEEDS >= 300;

std::string describe(const RivalOutcome& outcome) {
  const ModelLog::Counts& log = outcome.log;
  return fmt::format(
      "operations {} unknown {} repeated {} answered {} crashes {} lives {} chain puts {} no space {} "
      "records {} by reference {} held back {} taken back {} redone {} lost {} forgotten {} "
      "without room {} failures {} read only {} undecided {}",
      outcome.operations, outcome.unknown, outcome.repeated, outcome.repeated_answered, outcome.crashes,
      outcome.lives, outcome.chain_puts, outcome.no_space, log.records, log.by_reference, log.held,
      log.taken_back, log.redone, log.lost, outcome.forgotten, log.refused, log.failures, outcome.read_only,
      outcome.undecided);
}

std::string report(uint64_t seed, const RivalOutcome& outcome) {
  const std::string path = fmt::format("{}durable-seed-{}.svg", testing::TempDir(), seed);
  if (!outcome.svg.empty()) std::ofstream(path) << outcome.svg;
  return fmt::format("\n{}{}\nreplay it with REFRACT_SEED={} durable_test\n", outcome.picture,
                     outcome.svg.empty() ? "" : "picture: " + path, seed);
}

void expect_everything_happened(const RivalOutcome& all) {
  EXPECT_GT(all.crashes, 100U);
  EXPECT_GT(all.lives, REFRACT_CAMPAIGN_SEEDS + 20U);
  EXPECT_GT(all.chain_puts, 1'000U);
  EXPECT_GT(all.repeated_answered, 100U);
  EXPECT_GT(all.read_only, 10U);
  EXPECT_GT(all.log.by_reference, 1'000U);
  EXPECT_GT(all.log.held, 100U);
  EXPECT_GT(all.log.taken_back, 10U);
  EXPECT_GT(all.log.redone, 5U);
  EXPECT_GT(all.log.lost, 100U);
  EXPECT_GT(all.log.refused, 100U);
  EXPECT_GT(all.log.failures, 10U);
}

class DurableStore : public testing::TestWithParam<Durability> {};

TEST_P(DurableStore, what_was_acknowledged_is_there_after_crashes_of_server_and_host) {
  const uint64_t only = number_from_environment("REFRACT_SEED", 0);
  const uint64_t first = only == 0 ? 1 : only;
  const uint64_t count = number_from_environment("REFRACT_SEEDS", only == 0 ? REFRACT_CAMPAIGN_SEEDS : 1);
  RivalOutcome all;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const RivalOutcome outcome = run_rivals({.seed = seed, .durability = GetParam()});
    ASSERT_EQ(outcome.wrong, "") << report(seed, outcome);
    all.add(outcome);
  }
  SCOPED_TRACE(describe(all));
  EXPECT_EQ(all.undecided, 0U);
  if (kIsFull && count >= REFRACT_CAMPAIGN_SEEDS) {
    expect_everything_happened(all);
    fmt::print("{}\n", describe(all));
  }
}

// In a memory that is too small, where evictions are changes that the log is told of.
TEST_P(DurableStore, what_was_acknowledged_is_there_or_was_evicted) {
  const uint64_t only = number_from_environment("REFRACT_SEED", 0);
  const uint64_t first = only == 0 ? 1 : only;
  const uint64_t ordinary = std::max<uint64_t>(REFRACT_CAMPAIGN_SEEDS / 5, 1);
  const uint64_t count = number_from_environment("REFRACT_SEEDS", only == 0 ? ordinary : 1);
  RivalOutcome all;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const RivalOutcome outcome = run_rivals({.seed = seed, .durability = GetParam(), .evicts = true});
    ASSERT_EQ(outcome.wrong, "") << report(seed, outcome);
    all.add(outcome);
  }
  EXPECT_EQ(all.undecided, 0U);
  if (!kIsFull || count < ordinary) return;
  EXPECT_GT(all.evicted, 300U);
  EXPECT_GT(all.crashes, 20U);
  fmt::print("evicted {}: {}\n", all.evicted, describe(all));
}

// Several puts at one moment: table and log have all of them or none, whatever dies when.
TEST_P(DurableStore, a_batch_is_in_table_and_log_or_in_neither) {
  const uint64_t only = number_from_environment("REFRACT_SEED", 0);
  const uint64_t first = only == 0 ? 1 : only;
  const uint64_t ordinary = std::max<uint64_t>(REFRACT_CAMPAIGN_SEEDS / 5, 1);
  const uint64_t count = number_from_environment("REFRACT_SEEDS", only == 0 ? ordinary : 1);
  RivalOutcome all;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const RivalOutcome outcome = run_rivals({.seed = seed, .durability = GetParam(), .batches = true});
    ASSERT_EQ(outcome.wrong, "") << report(seed, outcome);
    all.add(outcome);
  }
  EXPECT_EQ(all.undecided, 0U);
  if (!kIsFull || count < ordinary) return;
  EXPECT_GT(all.batches, 300U);
  EXPECT_GT(all.crashes, 20U);
  fmt::print("batches {}: {}\n", all.batches, describe(all));
}

INSTANTIATE_TEST_SUITE_P(Modes, DurableStore, testing::Values(Durability::kEverySecond, Durability::kAlways),
                         [](const auto& mode) {
                           return mode.param == Durability::kAlways ? "always" : "everysec";
                         });

TEST(DurableSeeds, a_seed_gives_the_same_run_again) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const RivalOutcome one = run_rivals({.seed = seed, .durability = Durability::kAlways});
    const RivalOutcome two = run_rivals({.seed = seed, .durability = Durability::kAlways});
    EXPECT_EQ(one.trace_hash, two.trace_hash) << "seed " << seed;
    EXPECT_EQ(describe(one), describe(two)) << "seed " << seed;
  }
}

class DurableMutations : public testing::TestWithParam<MutationRow> {};

// The first seed that convicts each, for the table in NOTES.md.
TEST_P(DurableMutations, is_found) {
  if (!kIsFull) GTEST_SKIP() << "the seeds that a sanitizer has time for are too few";
  const Conviction conviction = convict(REFRACT_CAMPAIGN_SEEDS, [](uint64_t seed) {
    return run_rivals({.seed = seed, .mutation = GetParam().mutation, .durability = Durability::kAlways})
        .wrong;
  });
  EXPECT_NE(conviction.sentence, "") << GetParam().name << " was not found by " << conviction.seed
                                     << " seeds";
  fmt::print("{} | {} | {}\n", GetParam().name, conviction.seed, conviction.sentence);
}

INSTANTIATE_TEST_SUITE_P(All, DurableMutations, testing::ValuesIn(kDurableMutations),
                         [](const auto& mutation) { return std::to_string(mutation.index); });

}  // namespace
}  // namespace refract::campaign
