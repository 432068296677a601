// SPDX-License-Identifier: Apache-2.0
// What README.md says and what its suites measure cannot drift apart, and what was disturbed is no result.
#include "bench/suites/claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "refract/base/testing/needed.h"

namespace refract::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

// Words with single spaces between them: where a page breaks its lines says nothing.
std::string unwrapped(const std::string& text) {
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
  return line;
}

std::string page(const char* name) {
  const std::ifstream file(std::string(REFRACT_SOURCE_DIR) + "/" + name);
  EXPECT_TRUE(file) << name;
  std::ostringstream text;
  text << file.rdbuf();
  return unwrapped(text.str());
}

std::vector<Suite> claims() {
  std::vector<Suite> found;
  for (const std::string& name : suite_names()) {
    Reported<Suite> suite = read_suite(name);
    EXPECT_TRUE(suite) << suite.error().what;
    if (suite && suite->experiment == Suite::Experiment::kBars) found.push_back(std::move(*suite));
  }
  return found;
}

TEST(Claims, each_stands_in_the_readme) {
  const std::string readme = page("README.md");
  EXPECT_GE(claims().size(), 10u);
  for (const Suite& suite : claims()) {
    EXPECT_THAT(readme, HasSubstr(unwrapped(suite.claim))) << suite.name;
  }
}

TEST(Claims, each_command_of_the_readme_has_its_suite) {
  const std::string readme = page("README.md");
  constexpr std::string_view kCommand = "refract-bench suite ";
  size_t count = 0;
  for (size_t at = readme.find(kCommand); at != std::string::npos; at = readme.find(kCommand, at + 1)) {
    const size_t begin = at + kCommand.size();
    const std::string name = readme.substr(
        begin, readme.find_first_not_of("abcdefghijklmnopqrstuvwxyz-0123456789", begin) - begin);
    if (name == "--list" || name.empty()) continue;
    const Reported<Suite> suite = read_suite(name);
    EXPECT_TRUE(suite) << "README.md: " << name;
    ++count;
  }
  EXPECT_GE(count, 5u);
}

TEST(Claims, each_is_found_by_its_name_and_names_bars_that_exist) {
  for (const Suite& suite : claims()) {
    const Reported<Suite> again = read_suite(suite.name);
    ASSERT_TRUE(again) << suite.name;
    EXPECT_EQ(again->claim, suite.claim);
    for (const std::string& bar : suite.bars) EXPECT_NE(find_bar(bar), nullptr) << suite.name << ": " << bar;
  }
}

constexpr std::string_view kClaim = R"(
name = "mine"
title = "mine"
experiment = "bars"
claim = "it is so"
bars = ["idle", "restart"]
)";

TEST(Claims, a_wrong_one_is_refused_with_its_line) {
  const auto refusal = [](const std::string& text) {
    const Reported<Suite> suite = parse_suite(text, "a.toml");
    return suite ? "accepted" : suite.error().what;
  };
  const std::string claim(kClaim);
  EXPECT_EQ(refusal(claim), "accepted");
  EXPECT_THAT(refusal(claim + "seed = 1\n"), HasSubstr("'seed' is no word of a suite"));
  EXPECT_THAT(refusal(claim + "limits = [1]\n"), HasSubstr("limits are as many as bars"));
  EXPECT_EQ(refusal(claim + "limits = [1, 0.1]\n"), "accepted");
  std::string other = claim;
  other.replace(other.find("restart"), 7, "rewind!");
  EXPECT_THAT(refusal(other), HasSubstr("no bar is 'rewind!'"));
  EXPECT_THAT(refusal("name = 'a'\ntitle = 'b'\nexperiment = 'bars'\nbars = ['idle']\n"),
              HasSubstr("'claim' is missing"));
}

// As measured: the median of restarts, and whether the machine was the same before and after.
ClaimResult result_of(const Suite& suite, double seconds, bool is_accepted) {
  ClaimResult result;
  for (size_t i = 0; i < suite.bars.size(); ++i) {
    std::unique_ptr<ClaimedBar> claimed = claimed_bar(suite, i);
    Outcome outcome;
    outcome.samples = {seconds};
    outcome.blocks.emplace_back();
    outcome.blocks.back().accepted = is_accepted;
    const Verdict verdict = was_disturbed(outcome) ? Verdict::kDisturbed : judge(claimed->bar, outcome);
    claimed->result = {.bar = &claimed->bar, .outcome = outcome, .verdict = verdict};
    result.bars.push_back(std::move(claimed));
  }
  return result;
}

TEST(Claims, one_holds_when_all_its_bars_do_under_the_limits_that_it_names) {
  Suite suite = test::needed(parse_suite(kClaim, "a.toml"));
  EXPECT_EQ(result_of(suite, 0.1, true).verdict(), Verdict::kHolds);
  EXPECT_EQ(result_of(suite, 0.5, true).verdict(), Verdict::kFallsShort) << "a restart in 0.2 s, idle holds";
  suite.limits = {1, 0.6};
  EXPECT_EQ(result_of(suite, 0.5, true).verdict(), Verdict::kHolds);
  EXPECT_THAT(lines_of(suite, result_of(suite, 0.5, true)), HasSubstr("at most 0.6 s"));
}

TEST(Claims, what_was_disturbed_says_so_and_is_no_result) {
  const Suite suite = test::needed(parse_suite(kClaim, "a.toml"));
  const ClaimResult result = result_of(suite, 0.1234, false);
  EXPECT_EQ(result.verdict(), Verdict::kDisturbed);
  const std::string lines = lines_of(suite, result);
  EXPECT_THAT(lines, HasSubstr("verdict  disturbed: no result"));
  EXPECT_THAT(lines, Not(HasSubstr("0.123")));
  EXPECT_THAT(lines, HasSubstr("build/bin/refract-bench suite mine"));
  EXPECT_THAT(lines, HasSubstr("it is so"));
  Findings findings = findings_here("suite", "two of them", documents::Value::object());
  add_to(findings, suite, result);
  const size_t sections = findings.sections.size();
  Suite other = suite;
  other.name = "yours";
  add_to(findings, other, result);
  const auto json = nlohmann::json::parse(json_of(findings), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["facts"]["mine"]["verdict"], "disturbed");
  EXPECT_EQ(json["facts"]["yours"]["verdict"], "disturbed");
  EXPECT_EQ(json["sections"].size(), 2 * sections) << "one file holds all suites of a run";
  EXPECT_EQ(json["sections"][0]["series"].size(), 2u);
}

}  // namespace
}  // namespace refract::bench
