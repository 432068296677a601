// SPDX-License-Identifier: Apache-2.0
// Each rule of PRISM-TX, broken: the campaign finds it, by the checker's word or because keys cannot be
// written any more. It takes some 2 s.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>

#include "refract/base/testing/turns.h"
#include "refract/txn/designs/prism_tx/client.h"
#include "refract/txn/designs/test_campaign.h"

namespace refract::txn::prism_tx {
namespace {

using designs::Campaign;
using designs::CampaignOptions;

constexpr uint64_t kSeeds = 150;

struct Broken {
  const char* name;
  Rules rules;
  bool steps = false;  // It takes chains that are interleaved operation by operation.
  bool clients_are_suspected = false;
  bool revokes = true;
};
void PrintTo(const Broken& broken, std::ostream* out) {
  *out << broken.name;
}

Reported<std::unique_ptr<designs::Server>> make_server_that_revokes_nothing(
    const designs::ServerParts& parts) {
  return std::make_unique<PrismTxServer>(parts, ServerRules{.revokes = false});
}

std::string what_is_wrong(const Broken& broken, uint64_t seed) {
  const auto make = [&broken](const designs::ClientParts& parts) -> std::unique_ptr<designs::Client> {
    return std::make_unique<PrismTxClient>(parts, broken.rules);
  };
  designs::Design design = *designs::find("prism-tx");
  if (!broken.revokes) design.make_server = make_server_that_revokes_nothing;
  CampaignOptions options = {.design = &design, .seed = seed, .make_client = make};
  options.steps = broken.steps;
  options.clients_are_suspected = broken.clients_are_suspected;
  Campaign campaign(options);
  std::string wrong = campaign.run();
  if (!wrong.empty()) return wrong;
  const auto judgement =
      serialisability::check(broken.clients_are_suspected ? campaign.halved() : campaign.history());
  return judgement.anomaly ? judgement.anomaly->name : "";
}

class PrismTxBrokenRules : public testing::TestWithParam<Broken> {};

TEST_P(PrismTxBrokenRules, is_found) {
  if (refract::test::kIsSanitized) GTEST_SKIP() << "the seeds that a sanitizer has time for are too few";
  std::string wrong;
  uint64_t seed = 0;
  while (wrong.empty() && seed < kSeeds) wrong = what_is_wrong(GetParam(), ++seed);
  EXPECT_FALSE(wrong.empty()) << "not found by " << kSeeds << " seeds";
  fmt::print("{} | {} | {}\n", GetParam().name, seed, wrong);
}

// For the rows below: nothing is wrong where no rule is broken.
TEST(PrismTxRules, that_hold_are_not_accused) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    EXPECT_EQ(what_is_wrong({.name = "none", .rules = {}}, seed), "");
    EXPECT_EQ(what_is_wrong({.name = "none", .rules = {}, .steps = true}, seed), "");
    EXPECT_EQ(what_is_wrong({.name = "none", .rules = {}, .clients_are_suspected = true}, seed), "");
  }
}

constexpr Broken kBroken[] = {
    {.name = "value before slot", .rules = {.reads_slot_first = false}, .steps = true},
    {.name = "C of the buffer alone", .rules = {.reads_greater_of_both = false}},
    {.name = "no read is validated", .rules = {.validates_reads = false}},
    {.name = "PR is not raised", .rules = {.raises_readers = false}},
    {.name = "written keys are not validated", .rules = {.validates_written = false}},
    {.name = "TS > PR", .rules = {.accepts_own_reader = false}},
    {.name = "PR is not looked at", .rules = {.checks_readers = false}},
    {.name = "an abort raises no C", .rules = {.raises_committed = false}},
    {.name = "an abort raises C where PR was low only", .rules = {.raises_wherever_prepared = false}},
    {.name = "clean-up revokes nothing", .rules = {}, .clients_are_suspected = true, .revokes = false},
};
INSTANTIATE_TEST_SUITE_P(All, PrismTxBrokenRules, testing::ValuesIn(kBroken),
                         [](const auto& broken) { return std::to_string(broken.index); });

}  // namespace
}  // namespace refract::txn::prism_tx
