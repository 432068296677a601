// SPDX-License-Identifier: Apache-2.0
// The store under everything that the simulator can do to it, seed after seed. REFRACT_SEED=S in the
// environment replays one seed, REFRACT_SEEDS=N has as many as wanted; those that once failed stand in
// regressions.txt.
#include "tests/campaign/kv_campaign.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "refract/runtime/fault.h"

namespace refract::campaign {
namespace {

uint64_t seeds() {
  const char* const wanted = std::getenv("REFRACT_SEEDS");
  return wanted == nullptr ? REFRACT_CAMPAIGN_SEEDS : std::strtoull(wanted, nullptr, 10);
}

// Fewer, as under a sanitizer, cannot meet everything.
bool is_full() {
  return seeds() >= 300;
}

std::string describe(const KvOutcome& outcome) {
  return fmt::format(
      "judged {} direct {} stalled {} overtaken {} views {} over a crash {} listed {} splits {} lines linked "
      "{} "
      "unlinked {} crashes {} reconnects {} regions {} expired {} evicted {} spared {} no space {} unknown "
      "{} shared {} batches {} refused {} unknown {}",
      outcome.judged, outcome.direct, outcome.stalled, outcome.overtaken, outcome.views,
      outcome.views_over_crash, outcome.listed, outcome.splits, outcome.lines_linked, outcome.lines_unlinked,
      outcome.crashes, outcome.reconnects, outcome.regions, outcome.expired, outcome.evicted, outcome.spared,
      outcome.no_space, outcome.unknown, outcome.shared, outcome.batches, outcome.batches_refused,
      outcome.batches_unknown);
}

// The seeds in regressions.txt, or the one that REFRACT_SEED asks for.
std::vector<uint64_t> seeds_to_begin_with() {
  if (const char* only = std::getenv("REFRACT_SEED")) return {std::strtoull(only, nullptr, 10)};
  std::ifstream file(REFRACT_SOURCE_DIR "/tests/campaign/regressions.txt");
  EXPECT_TRUE(file.is_open());
  std::vector<uint64_t> seeds;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') seeds.push_back(std::stoull(line));
  }
  EXPECT_FALSE(seeds.empty());
  return seeds;
}

TEST(KvCampaign, seeds_that_once_failed_pass) {
  for (const uint64_t seed : seeds_to_begin_with()) EXPECT_EQ(run_kv({.seed = seed}).wrong, "");
}

void expect_everything_happened(const KvOutcome& all) {
  EXPECT_GT(all.stalled, 1'000U);
  EXPECT_GT(all.overtaken, 10U);
  EXPECT_GT(all.views_over_crash, 100U);
  EXPECT_GT(all.views, all.views_over_crash);
  EXPECT_GT(all.splits, 1'000U);
  EXPECT_GT(all.shared, 1'000U);
  EXPECT_GT(all.lines_linked, 100U);
  EXPECT_GT(all.lines_unlinked, 100U);
  EXPECT_GT(all.regions, 10U);
  EXPECT_GT(all.expired, 100U);
  EXPECT_GT(all.no_space, 100U);
  EXPECT_GT(all.reconnects, 100U);
  EXPECT_GT(all.unknown, 100U);
  EXPECT_GT(all.batches, 1'000U);
  EXPECT_GT(all.batches_refused, 1'000U);
  EXPECT_GT(all.batches_unknown, 50U);
  // A crash in the middle of a put, of an erase, of a batch and of a split, and memory refused when there was
  // some.
  std::set<std::string> sites;
  for (const runtime::FaultSite* site = runtime::FaultSite::first(); site != nullptr; site = site->next()) {
    // Of transactions over several shards, with logs: parts_log_test and the processes' tests die there.
    if (site->name().starts_with("kv.parts.")) continue;
    // Of sessions and numbered writes: numbered_interleaving_test dies between any two of their stores.
    if (site->name().starts_with("kv.numbered.")) continue;
    // Only a recovery behind a crash in the middle of a batch comes there: a second crash is
    // table_batch_test's.
    const bool is_rare = site->name() == "kv.batch.before_settled";
    EXPECT_GE(site->fired_count(), is_rare ? 0U : 1U) << site->name();
    EXPECT_GT(site->reached_count(), site->fired_count()) << site->name();
    sites.insert(std::string(site->name()));
  }
  EXPECT_EQ(sites, (std::set<std::string>{
                       "heap.no_chunk", "kv.batch.after_decision", "kv.batch.before_decision",
                       "kv.batch.before_pending", "kv.batch.before_settled", "kv.batch.between_applied",
                       "kv.chain.before_install", "kv.erase.before_retire", "kv.put.after_allocate",
                       "kv.put.after_publish", "kv.put.before_publish", "kv.split.after_count",
                       "kv.split.before_count"}));
}

TEST(KvCampaign, every_answer_is_right_under_crashes_stops_cuts_and_stalls_and_all_of_them_happen) {
  KvOutcome all;
  for (uint64_t seed = 1; seed <= seeds(); ++seed) {
    const KvOutcome outcome = run_kv({.seed = seed});
    ASSERT_EQ(outcome.wrong, "") << "replay it with REFRACT_SEED=" << seed;
    all.add(outcome);
  }
  SCOPED_TRACE(describe(all));
  if (is_full()) expect_everything_happened(all);
  RecordProperty("what_happened", describe(all));
}

TEST(KvCampaign, what_is_evicted_is_gone_for_all_and_what_is_pinned_stays) {
  KvOutcome all;
  for (uint64_t seed = 1; seed <= seeds() / 3; ++seed) {
    const auto policy =
        seed % 2 == 0 ? kv::EvictionPolicy::kLeastRecentlyUsed : kv::EvictionPolicy::kLeastOftenUsed;
    const KvOutcome outcome = run_kv({.seed = seed, .eviction = policy});
    ASSERT_EQ(outcome.wrong, "") << "seed " << seed;
    all.add(outcome);
  }
  SCOPED_TRACE(describe(all));
  if (!is_full()) return;
  EXPECT_GT(all.evicted, 1'000U);
  EXPECT_GT(all.spared, 10U);
  EXPECT_GT(all.views, 100U);
  EXPECT_GT(all.crashes, 10U);
}

// Keys of all workers in the same buckets, which are crowded, split, emptied and filled again. A tenth of the
// seeds, and two of three runs with eviction or without.
TEST(KvCampaign, keys_of_one_bucket_are_keys_like_any_other) {
  KvOutcome all;
  for (uint64_t seed = 1; seed <= seeds() / 8; ++seed) {
    const auto policy = seed % 3 == 0 ? kv::EvictionPolicy::kLeastRecentlyUsed : kv::EvictionPolicy::kNone;
    const KvOutcome outcome = run_kv({.seed = seed, .crowded = true, .eviction = policy});
    ASSERT_EQ(outcome.wrong, "") << "seed " << seed;
    all.add(outcome);
  }
  SCOPED_TRACE(describe(all));
  if (!is_full()) return;
  EXPECT_GT(all.crowded, 10'000U);
  EXPECT_GT(all.splits, 100U);
  EXPECT_GT(all.crashes, 10U);
  EXPECT_GT(all.lines_unlinked, 100U);
  const KvOutcome one = run_kv({.seed = 2, .crowded = true});
  EXPECT_EQ(one.trace_hash, run_kv({.seed = 2, .crowded = true}).trace_hash)
      << "nothing depends on the secret";
}

TEST(KvCampaign, a_seed_gives_the_same_run_again) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const KvOutcome one = run_kv({.seed = seed});
    const KvOutcome two = run_kv({.seed = seed});
    EXPECT_EQ(one.trace_hash, two.trace_hash) << "seed " << seed;
    EXPECT_EQ(describe(one), describe(two)) << "seed " << seed;
  }
  EXPECT_NE(run_kv({.seed = 1}).trace_hash, run_kv({.seed = 2}).trace_hash);
}

// The first seed that convicts the mutation, or 0.
uint64_t seed_that_finds(Mutation mutation, uint64_t seeds, bool crowded = false) {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const KvOutcome outcome = run_kv({.seed = seed, .crowded = crowded, .mutation = mutation});
    if (outcome.wrong.empty()) continue;
    return seed;
  }
  return 0;
}

constexpr uint64_t kSeedsToFind = 60;

TEST(KvCampaign, a_reader_that_does_not_look_twice_is_found) {
  EXPECT_NE(seed_that_finds(Mutation::kBlindReaders, kSeedsToFind), 0U);
}

TEST(KvCampaign, a_reader_that_believes_what_is_pending_is_found) {
  EXPECT_NE(seed_that_finds(Mutation::kBelievePending, kSeedsToFind), 0U);
}

TEST(KvCampaign, a_batch_that_is_decided_behind_its_first_store_is_found) {
  EXPECT_NE(seed_that_finds(Mutation::kDecideLate, kSeedsToFind), 0U);
}

TEST(KvCampaign, a_server_that_ignores_pins_is_found) {
  EXPECT_NE(seed_that_finds(Mutation::kIgnorePins, kSeedsToFind), 0U);
}

TEST(KvCampaign, a_recovery_that_forgets_pins_is_found) {
  EXPECT_NE(seed_that_finds(Mutation::kForgetPins, kSeedsToFind), 0U);
}

TEST(KvCampaign, a_split_that_clears_before_it_publishes_is_found) {
  EXPECT_NE(seed_that_finds(Mutation::kClearBeforeCount, kSeedsToFind), 0U);
}

TEST(KvCampaign, a_reader_that_takes_the_last_line_it_follows_for_the_end_is_found) {
  EXPECT_NE(seed_that_finds(Mutation::kShortChains, kSeedsToFind, true), 0U);
}

}  // namespace
}  // namespace refract::campaign
