// SPDX-License-Identifier: Apache-2.0
// The store under rivals that write the same keys, seed after seed, judged by the linearizability checker.
//
//   rivals_test                                    the ordinary run
//   REFRACT_SEED=S rivals_test                     one seed, replayed, with its picture
//   REFRACT_SEEDS=N rivals_test                    as many as wanted, from REFRACT_SEED on if that is given
#include "tests/campaign/rivals.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/campaign/conviction.h"

namespace refract::campaign {
namespace {

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Fewer, as under a sanitizer, cannot meet everything.
constexpr bool kIsFull = REFRACT_CAMPAIGN_SEEDS >= 1000;

std::string describe(const RivalOutcome& outcome) {
  return fmt::format(
      "operations {} pulled {} unpulled {} direct {} stalled {} overtaken {} unknown {} repeated {} answered "
      "{} mismatches {} "
      "expiring {} large {} listed {} splits {} regions {} crashes {} lives {} sharded {} deaths {} "
      "reconnects {} no space {} chain gets {} puts {} conflicts {} remote gets {} "
      "calls {} retries {} hits {} stale {} expiring {} evicted {} sent twice {} excluded {} undecided {} "
      "steps {}",
      outcome.operations, outcome.pulled, outcome.unpulled, outcome.direct, outcome.stalled,
      outcome.overtaken, outcome.unknown, outcome.repeated, outcome.repeated_answered, outcome.mismatches,
      outcome.expiring, outcome.large, outcome.listed, outcome.splits, outcome.regions, outcome.crashes,
      outcome.lives, outcome.sharded, outcome.deaths, outcome.reconnects, outcome.no_space,
      outcome.chain_gets, outcome.chain_puts, outcome.chain_conflicts, outcome.remote_gets,
      outcome.remote_calls, outcome.remote_retries, outcome.remote_hits, outcome.remote_stale,
      outcome.remote_expiring, outcome.evicted, outcome.sent_twice, outcome.excluded_max, outcome.undecided,
      outcome.steps);
}

std::string picture_path(uint64_t seed) {
  return fmt::format("{}rivals-seed-{}.svg", testing::TempDir(), seed);
}

// What a person needs to continue: the contradiction here, and as a picture in a file.
std::string report(uint64_t seed, const RivalOutcome& outcome) {
  const std::string path = picture_path(seed);
  if (!outcome.svg.empty()) std::ofstream(path) << outcome.svg;
  return fmt::format("\n{}{}\nreplay it with REFRACT_SEED={} rivals_test\n", outcome.picture,
                     outcome.svg.empty() ? "" : "picture: " + path, seed);
}

void expect_everything_happened(const RivalOutcome& all) {
  EXPECT_GT(all.stalled, 1'000U);
  EXPECT_GT(all.overtaken, 10U);
  EXPECT_GT(all.unknown, 100U);
  EXPECT_GT(all.repeated, 1'000U);
  EXPECT_GT(all.repeated_answered, 300U);
  EXPECT_LT(all.repeated_answered, all.repeated);
  EXPECT_GT(all.mismatches, 1'000U);
  EXPECT_GT(all.expiring, 1'000U);
  EXPECT_GT(all.large, 1'000U);
  EXPECT_GT(all.pulled, 1'000U);
  EXPECT_GT(all.unpulled, 100U);
  EXPECT_GT(all.listed, 1'000U);
  EXPECT_GT(all.splits, 1'000U);
  EXPECT_GT(all.regions, 10U);
  EXPECT_GT(all.crashes, 100U);
  EXPECT_GT(all.lives, REFRACT_CAMPAIGN_SEEDS + 20U);
  EXPECT_GT(all.sharded, 200U);
  EXPECT_GT(all.deaths, 100U);
  EXPECT_GT(all.reconnects, 100U);
  EXPECT_GT(all.no_space, 10U);
  EXPECT_GT(all.chain_gets, 10'000U);
  EXPECT_GT(all.chain_puts, 5'000U);
  EXPECT_GT(all.chain_conflicts, 100U);
  EXPECT_GT(all.remote_gets, 10'000U);
  EXPECT_GT(all.remote_calls, 1'000U);
  EXPECT_GT(all.remote_retries, 1'000U);
  EXPECT_GT(all.remote_hits, 1'000U);
  EXPECT_GT(all.remote_stale, 1'000U);
  EXPECT_GT(all.remote_expiring, 100U);
  EXPECT_GT(all.sent_twice, 1'000U);
  // An entry of unknown version that met as many conditions: one more than a checker may forget.
  EXPECT_GE(all.excluded_max, 3U);
}

TEST(Rivals, every_history_is_linearizable_under_crashes_stops_cuts_and_stalls) {
  const uint64_t only = number_from_environment("REFRACT_SEED", 0);
  const uint64_t first = only == 0 ? 1 : only;
  const uint64_t count = number_from_environment("REFRACT_SEEDS", only == 0 ? REFRACT_CAMPAIGN_SEEDS : 1);
  RivalOutcome all;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const RivalOutcome outcome = run_rivals({.seed = seed});
    ASSERT_EQ(outcome.wrong, "") << report(seed, outcome);
    all.add(outcome);
  }
  SCOPED_TRACE(describe(all));
  RecordProperty("what_happened", describe(all));
  // A key without a judgement is one that was not checked.
  EXPECT_EQ(all.undecided, 0U);
  if (kIsFull && count >= REFRACT_CAMPAIGN_SEEDS) {
    expect_everything_happened(all);
    fmt::print("{}\n", describe(all));
  }
}

// A fifth of the seeds again, in a memory that is too small: what goes is an erasure in the history, so
// that conditions, lost answers and reads are judged as before.
TEST(Rivals, every_history_is_linearizable_where_entries_are_evicted) {
  const uint64_t only = number_from_environment("REFRACT_SEED", 0);
  const uint64_t first = only == 0 ? 1 : only;
  const uint64_t ordinary = std::max<uint64_t>(REFRACT_CAMPAIGN_SEEDS / 5, 1);
  const uint64_t count = number_from_environment("REFRACT_SEEDS", only == 0 ? ordinary : 1);
  RivalOutcome all;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const RivalOutcome outcome = run_rivals({.seed = seed, .evicts = true});
    ASSERT_EQ(outcome.wrong, "") << report(seed, outcome);
    all.add(outcome);
  }
  EXPECT_EQ(all.undecided, 0U);
  if (!kIsFull || count < ordinary) return;
  EXPECT_GT(all.evicted, 1'000U);
  EXPECT_GT(all.repeated_answered, 100U);
  EXPECT_GT(all.mismatches, 300U);
  EXPECT_GT(all.crashes, 30U);
  fmt::print("{}\n", describe(all));
}

TEST(Rivals, a_seed_gives_the_same_run_again) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const RivalOutcome one = run_rivals({.seed = seed});
    const RivalOutcome two = run_rivals({.seed = seed});
    EXPECT_EQ(one.trace_hash, two.trace_hash) << "seed " << seed;
    EXPECT_EQ(describe(one), describe(two)) << "seed " << seed;
  }
}

TEST(Rivals, a_conviction_comes_with_its_evidence_as_a_picture) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const RivalOutcome outcome = run_rivals({.seed = seed, .mutation = Mutation::kAcknowledgeEarly});
    if (outcome.svg.empty()) continue;
    const std::string text = report(seed, outcome);
    EXPECT_NE(text.find("\n!! "), std::string::npos) << text;
    EXPECT_NE(text.find("\n * "), std::string::npos) << text;
    EXPECT_NE(text.find(fmt::format("REFRACT_SEED={}", seed)), std::string::npos);
    const std::string path = picture_path(seed);
    EXPECT_NE(text.find(path), std::string::npos);
    std::ifstream file(path);
    std::string first;
    std::getline(file, first);
    EXPECT_TRUE(first.starts_with("<svg ")) << path;
    EXPECT_EQ(std::remove(path.c_str()), 0);
    return;
  }
  FAIL() << "nothing was found that could be drawn";
}

class RivalMutations : public testing::TestWithParam<MutationRow> {};

// The first seed that convicts each, for the table in NOTES.md.
TEST_P(RivalMutations, is_found) {
  if (!kIsFull) GTEST_SKIP() << "the seeds that a sanitizer has time for are too few";
  const auto begin = std::chrono::steady_clock::now();
  const Conviction conviction = convict(REFRACT_CAMPAIGN_SEEDS, [](uint64_t seed) {
    return run_rivals({.seed = seed, .mutation = GetParam().mutation}).wrong;
  });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_NE(conviction.sentence, "") << GetParam().name << " was not found by " << conviction.seed
                                     << " seeds";
  fmt::print("{} | {} | {:.1f} s | {}\n", GetParam().name, conviction.seed, seconds, conviction.sentence);
}

INSTANTIATE_TEST_SUITE_P(All, RivalMutations, testing::ValuesIn(kRivalMutations),
                         [](const auto& mutation) { return std::to_string(mutation.index); });

class EvictionMutations : public testing::TestWithParam<MutationRow> {};

TEST_P(EvictionMutations, is_found) {
  if (!kIsFull) GTEST_SKIP() << "the seeds that a sanitizer has time for are too few";
  const Conviction conviction = convict(REFRACT_CAMPAIGN_SEEDS, [](uint64_t seed) {
    return run_rivals({.seed = seed, .mutation = GetParam().mutation, .evicts = true}).wrong;
  });
  EXPECT_NE(conviction.sentence, "") << GetParam().name << " was not found by " << conviction.seed
                                     << " seeds";
  fmt::print("{} | {} | {}\n", GetParam().name, conviction.seed, conviction.sentence);
}

INSTANTIATE_TEST_SUITE_P(All, EvictionMutations, testing::ValuesIn(kEvictionMutations),
                         [](const auto& mutation) { return std::to_string(mutation.index); });

}  // namespace
}  // namespace refract::campaign
