// SPDX-License-Identifier: Apache-2.0
// Each rule of FaRM's commit and of its objects, broken: the campaign finds it, by the checker's word, or
// because values are torn or keys stay locked. It takes some 2 s.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>

#include "refract/base/testing/turns.h"
#include "refract/txn/designs/farm/client.h"
#include "refract/txn/designs/farm/server.h"
#include "refract/txn/designs/test_campaign.h"

namespace refract::txn::farm {
namespace {

using designs::Campaign;
using designs::CampaignOptions;

constexpr uint64_t kSeeds = 150;

Reported<std::unique_ptr<designs::Server>> make_lockless(const designs::ServerParts& parts) {
  return make_server_by(parts, {.locks = false});
}
Reported<std::unique_ptr<designs::Server>> make_early(const designs::ServerParts& parts) {
  return make_server_by(parts, {.stores = {.unlocks_at_last = false}});
}

struct Broken {
  const char* name;
  Rules rules = {};
  Reported<std::unique_ptr<designs::Server>> (*make)(const designs::ServerParts&) = make_server;
};
void PrintTo(const Broken& broken, std::ostream* out) {
  *out << broken.name;
}

std::string what_is_wrong(const Broken& broken, uint64_t seed) {
  designs::Design design = *designs::find("farm");
  design.make_server = broken.make;
  const auto make = [&broken](const designs::ClientParts& parts) -> std::unique_ptr<designs::Client> {
    return std::make_unique<FarmClient>(parts, broken.rules);
  };
  const CampaignOptions options = {.design = &design, .seed = seed, .make_client = make};
  Campaign campaign(options);
  std::string wrong = campaign.run();
  if (!wrong.empty()) return wrong;
  const auto judgement = serialisability::check(campaign.history());
  return judgement.anomaly ? judgement.anomaly->name : "";
}

class FarmBrokenRules : public testing::TestWithParam<Broken> {};

TEST_P(FarmBrokenRules, is_found) {
  if (refract::test::kIsSanitized) GTEST_SKIP() << "the seeds that a sanitizer has time for are too few";
  std::string wrong;
  uint64_t seed = 0;
  while (wrong.empty() && seed < kSeeds) wrong = what_is_wrong(GetParam(), ++seed);
  EXPECT_FALSE(wrong.empty()) << "not found by " << kSeeds << " seeds";
  fmt::print("{} | {} | {}\n", GetParam().name, seed, wrong);
}

// For the rows below: nothing is wrong where no rule is broken.
TEST(FarmRules, that_hold_are_not_accused) {
  for (uint64_t seed = 1; seed <= 3; ++seed) EXPECT_EQ(what_is_wrong({.name = "none"}, seed), "");
}

constexpr Broken kBroken[] = {
    {.name = "nothing is validated", .rules = {.validates = false}},
    {.name = "validated before the locks", .rules = {.validates_behind_locks = false}},
    {.name = "locks of others do not count", .rules = {.minds_locks_of_others = false}},
    {.name = "lines are not compared", .rules = {.checks_lines = false}},
    {.name = "what is given up stays locked", .rules = {.unlocks_what_it_gives_up = false}},
    {.name = "nothing is locked", .make = make_lockless},
    {.name = "unlocked before it is stored", .make = make_early},
};
INSTANTIATE_TEST_SUITE_P(All, FarmBrokenRules, testing::ValuesIn(kBroken),
                         [](const auto& broken) { return std::to_string(broken.index); });

}  // namespace
}  // namespace refract::txn::farm
