// SPDX-License-Identifier: Apache-2.0
// Nodes that share their objects, under everything that the simulator can do to them, seed after seed:
// servers killed, memories lost, links cut, hosts stopped, lists that change node by node. What clients are
// told is judged as directory_run.h says.
//
// REFRACT_SEED=S replays one seed, REFRACT_SEEDS=N has as many as wanted. Rules that are broken on purpose
// are the model's matter (tests/models).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/objects/directory_run.h"

namespace refract::campaign {
namespace {

// For all runs, one after the other.
object::test::RedisProcess& redis() {
  static object::test::RedisProcess process;
  return process;
}

uint64_t seeds() {
  const char* const wanted = std::getenv("REFRACT_SEEDS");
  return wanted == nullptr ? REFRACT_CAMPAIGN_SEEDS : std::strtoull(wanted, nullptr, 10);
}

RunOutcome run_all(object::test::RedisProcess* directory, uint64_t count) {
  const char* const only = std::getenv("REFRACT_SEED");
  const uint64_t first = only == nullptr ? 1 : std::strtoull(only, nullptr, 10);
  const uint64_t last = only == nullptr ? count : first;
  RunOutcome all;
  for (uint64_t seed = first; seed <= last; ++seed) {
    if (directory != nullptr) REFRACT_CHECK(directory->ask({"FLUSHALL"}).text == "OK");
    const RunOutcome outcome = DirectoryRun({.seed = seed, .redis = directory}).run();
    EXPECT_EQ(outcome.wrong, "") << "replay it with REFRACT_SEED=" << seed;
    all.add(outcome);
    if (!outcome.wrong.empty()) break;
  }
  testing::Test::RecordProperty("what_happened", all.text());
  if (only != nullptr) std::printf("%s\n", all.text().c_str());
  return all;
}

// Redis takes real time: a few seeds.
TEST(DirectoryCampaign, in_redis_one_id_is_one_object_and_what_is_deleted_stays_away) {
  const RunOutcome all = run_all(&redis(), std::max<uint64_t>(4, seeds() / 5));
  SCOPED_TRACE(all.text());
  EXPECT_GT(all.puts, 20U);
  EXPECT_GT(all.gets, 20U);
  EXPECT_GT(all.promises, 20U);
  EXPECT_GT(all.brought, 20U);
}

TEST(DirectoryCampaign, one_id_is_one_object_and_what_is_deleted_stays_away) {
  const RunOutcome all = run_all(nullptr, seeds());
  if (seeds() < REFRACT_FULL_SEEDS || std::getenv("REFRACT_SEED") != nullptr) return;
  SCOPED_TRACE(all.text());
  EXPECT_GT(all.puts, 1'000U);
  EXPECT_GT(all.gets, 2'000U);
  EXPECT_GT(all.misses, 500U);
  EXPECT_GT(all.ranks, 200U);
  EXPECT_GT(all.deletes, 200U);
  EXPECT_GT(all.partial_deletes, 20U);
  EXPECT_GT(all.broadcasts, 500U);
  EXPECT_GT(all.brought, 1'000U);
  EXPECT_GT(all.arriving, 100U);
  EXPECT_GT(all.passed_on, 20U);
  EXPECT_GT(all.away, 100U);
  EXPECT_GT(all.pulls, 500U);
  EXPECT_GT(all.asked_all, 20U);
  EXPECT_GT(all.from_several, 20U);
  EXPECT_GT(all.givers_left, 20U);
  EXPECT_GT(all.reads, 500U);
  EXPECT_GT(all.kills, 50U);
  EXPECT_GT(all.losses, 10U);
  EXPECT_GT(all.lists, 10U);
  EXPECT_GT(all.cuts, 50U);
  EXPECT_GT(all.promises, 300U);
  EXPECT_GT(all.outlived, 10U);
}

TEST(DirectoryCampaign, a_seed_gives_the_same_run_again) {
  const RunOutcome one = DirectoryRun({.seed = 4}).run();
  const RunOutcome two = DirectoryRun({.seed = 4}).run();
  EXPECT_EQ(one.trace_hash, two.trace_hash);
  EXPECT_EQ(one.text(), two.text());
}

}  // namespace
}  // namespace refract::campaign
