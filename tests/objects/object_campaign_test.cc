// SPDX-License-Identifier: Apache-2.0
// Objects under everything that the simulator can do to their owner, seed after seed. REFRACT_SEED=S in the
// environment replays one seed, REFRACT_SEEDS=N has as many as wanted.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/objects/object_run.h"

#include "refract/runtime/fault.h"

namespace refract::campaign {
namespace {

uint64_t seeds() {
  const char* const wanted = std::getenv("REFRACT_SEEDS");
  return wanted == nullptr ? REFRACT_CAMPAIGN_SEEDS : std::strtoull(wanted, nullptr, 10);
}

// Fewer, as under a sanitizer, cannot meet everything.
bool is_full() {
  return seeds() >= REFRACT_FULL_SEEDS;
}

// Few: all meet at the same objects. Many: much lies in the memory.
int ids_of(uint64_t seed) {
  return seed % 2 == 0 ? 8 : 3;
}

// Of all seeds, or of the one that REFRACT_SEED asks for.
ObjectOutcome run_all(bool evicts) {
  const char* const only = std::getenv("REFRACT_SEED");
  const uint64_t first = only == nullptr ? 1 : std::strtoull(only, nullptr, 10);
  const uint64_t last = only == nullptr ? seeds() : first;
  ObjectOutcome all;
  for (uint64_t seed = first; seed <= last; ++seed) {
    const ObjectOutcome outcome = run_objects({.seed = seed, .ids = ids_of(seed), .evicts = evicts});
    EXPECT_EQ(outcome.wrong, "") << "replay it with REFRACT_SEED=" << seed;
    if (!outcome.wrong.empty()) break;
    all.add(outcome);
  }
  return all;
}

TEST(ObjectCampaign, a_get_returns_one_whole_birth_and_none_that_was_deleted_and_nothing_is_left) {
  const ObjectOutcome all = run_all(false);
  SCOPED_TRACE(all.text());
  RecordProperty("what_happened", all.text());
  if (!is_full()) return;
  EXPECT_GT(all.held, 1'000U);
  EXPECT_GT(all.held_over_crash, 50U);
  EXPECT_GT(all.held_over_delete, 50U);
  EXPECT_GT(all.missing, 100U);
  EXPECT_GT(all.fetched, 100U);
  EXPECT_GT(all.pulled, 100U);
  EXPECT_GT(all.written, 100U);
  EXPECT_GT(all.sealed_over_crash, 10U);
  EXPECT_GT(all.put, 100U);
  EXPECT_GT(all.aborted, 10U);
  EXPECT_GT(all.left, 10U);
  EXPECT_GT(all.deleted, 100U);
  EXPECT_GT(all.refused, 100U);
  EXPECT_GT(all.repeated, 100U);
  EXPECT_GT(all.crashes, 50U);
  for (const runtime::FaultSite* site = runtime::FaultSite::first(); site != nullptr; site = site->next()) {
    if (site->name() != "objects.before_store") continue;
    EXPECT_GT(site->fired_count(), 10U);
  }
}

TEST(ObjectCampaign, what_is_held_stays_where_others_make_room) {
  const ObjectOutcome all = run_all(true);
  SCOPED_TRACE(all.text());
  RecordProperty("what_happened", all.text());
  if (!is_full()) return;
  EXPECT_GT(all.evicted, 100U);
  EXPECT_GT(all.held, 1'000U);
  EXPECT_GT(all.crashes, 10U);
}

TEST(ObjectCampaign, a_seed_gives_the_same_run_again) {
  const ObjectOutcome one = run_objects({.seed = 4});
  const ObjectOutcome two = run_objects({.seed = 4});
  EXPECT_EQ(one.trace_hash, two.trace_hash);
  EXPECT_EQ(one.text(), two.text());
  EXPECT_NE(one.trace_hash, run_objects({.seed = 5}).trace_hash);
}

class BrokenRule : public testing::TestWithParam<ObjectMutationRow> {};

TEST_P(BrokenRule, is_found) {
  constexpr uint64_t kSeedsToFind = 200;
  for (uint64_t seed = 1; seed <= kSeedsToFind; ++seed) {
    const ObjectOutcome outcome =
        run_objects({.seed = seed, .ids = ids_of(seed), .mutation = GetParam().mutation});
    if (outcome.wrong.empty()) continue;
    RecordProperty("found", outcome.wrong);
    EXPECT_EQ(run_objects({.seed = seed, .ids = ids_of(seed)}).wrong, "") << "the seed is wrong without it";
    return;
  }
  FAIL() << GetParam().name << ": no seed of " << kSeedsToFind << " finds it";
}

INSTANTIATE_TEST_SUITE_P(All, BrokenRule, testing::ValuesIn(kObjectMutations),
                         [](const testing::TestParamInfo<ObjectMutationRow>& row) {
                           std::string name(row.param.name);
                           for (char& letter : name) letter = letter == ' ' ? '_' : letter;
                           return name;
                         });

}  // namespace
}  // namespace refract::campaign
