// SPDX-License-Identifier: Apache-2.0
// Histories that are known to be good or bad, each as a little table:
//   {client, call, from, to, answer}, in moments.
#include "refract/base/testing/linearizability/checker.h"

#include <gtest/gtest.h>

#include <vector>

#include "refract/base/testing/linearizability/picture.h"

namespace refract::linearizability {
namespace {

struct Times {
  uint64_t from;
  uint64_t to;
};

Operation at(uint32_t client, Times times, Operation one) {
  one.client = client;
  one.began = one.began_ns = times.from;
  one.ended = one.ended_ns = times.to;
  return one;
}

Operation put(uint64_t value, uint64_t version) {
  return {.kind = Kind::kPut, .outcome = Outcome::kDone, .value = value, .version = version};
}
Operation put_unknown(uint64_t value) {
  return {.kind = Kind::kPut, .outcome = Outcome::kUnknown, .value = value};
}
Operation put_if(uint64_t if_version, Outcome outcome, uint64_t value, uint64_t version = 0) {
  return {
      .kind = Kind::kPut, .outcome = outcome, .if_version = if_version, .value = value, .version = version};
}
Operation put_if_absent(Outcome outcome, uint64_t value, uint64_t version = 0) {
  return {.kind = Kind::kPut, .outcome = outcome, .if_absent = true, .value = value, .version = version};
}
Operation got(uint64_t value, uint64_t version) {
  return {.kind = Kind::kGet, .outcome = Outcome::kDone, .value = value, .version = version};
}
Operation got_nothing() {
  return {.kind = Kind::kGet, .outcome = Outcome::kAbsent};
}
Operation erased(uint64_t version) {
  return {.kind = Kind::kErase, .outcome = Outcome::kDone, .version = version};
}

Judgement judge(const std::vector<Operation>& operations) {
  return check({.clients = {"a", "b", "c"}, .keys = {"key"}, .operations = operations});
}

TEST(Good, a_read_may_see_either_side_of_a_put_under_way) {
  EXPECT_TRUE(judge({at(0, {1, 2}, put(10, 1)), at(0, {3, 9}, put(11, 2)), at(1, {4, 5}, got(10, 1)),
                     at(1, {6, 7}, got(11, 2))})
                  .is_good());
}

TEST(Good, an_unknown_put_may_take_effect_late_or_never) {
  EXPECT_TRUE(judge({at(0, {1, 2}, put(10, 1)), at(1, {3, kNever}, put_unknown(11)),
                     at(0, {4, 5}, got(10, 1)), at(0, {8, 9}, got(11, 2))})
                  .is_good());
  EXPECT_TRUE(judge({at(1, {3, kNever}, put_unknown(11)), at(0, {4, 5}, got_nothing())}).is_good());
}

TEST(Good, operations_at_the_same_moment_are_concurrent) {
  EXPECT_TRUE(judge({at(0, {1, 2}, put(10, 1)), at(1, {2, 3}, got_nothing())}).is_good());
  EXPECT_FALSE(judge({at(0, {1, 2}, put(10, 1)), at(1, {3, 4}, got_nothing())}).is_good());
}

TEST(Good, an_entry_may_be_there_or_not_while_clocks_disagree_on_its_end) {
  Operation expiring = at(0, {1, 2}, put(10, 1));
  expiring.expires_from_ns = 10;
  expiring.expires_until_ns = 20;
  EXPECT_TRUE(judge({expiring, at(1, {12, 13}, got_nothing()), at(1, {14, 15}, got(10, 1)),
                     at(1, {21, 22}, got_nothing())})
                  .is_good());
}

TEST(Bad, a_stale_read) {
  EXPECT_FALSE(
      judge({at(0, {1, 2}, put(10, 1)), at(0, {3, 4}, put(11, 2)), at(1, {5, 6}, got(10, 1))}).is_good());
}

TEST(Bad, two_reads_that_see_a_put_and_then_do_not) {
  EXPECT_FALSE(judge({at(0, {1, 2}, put(10, 1)), at(0, {3, 9}, put(11, 2)), at(1, {4, 5}, got(11, 2)),
                      at(2, {6, 7}, got(10, 1))})
                   .is_good());
}

TEST(Bad, an_unknown_put_that_is_seen_and_then_not) {
  EXPECT_FALSE(judge({at(0, {1, 2}, put(10, 1)), at(1, {3, kNever}, put_unknown(11)),
                      at(0, {4, 5}, got(11, 2)), at(0, {8, 9}, got(10, 1))})
                   .is_good());
}

TEST(Bad, a_put_that_happens_twice) {
  EXPECT_FALSE(judge({at(1, {1, kNever}, put_unknown(11)), at(0, {4, 5}, got(11, 2)),
                      at(0, {6, 7}, put(12, 3)), at(0, {8, 9}, got(11, 4))})
                   .is_good());
}

TEST(Bad, a_lost_update) {
  EXPECT_FALSE(judge({at(0, {1, 2}, put(10, 1)), at(0, {3, 6}, put_if(1, Outcome::kDone, 11, 2)),
                      at(1, {4, 7}, put_if(1, Outcome::kDone, 12, 3))})
                   .is_good());
}

TEST(Bad, a_put_if_absent_that_succeeds_twice) {
  EXPECT_FALSE(judge({at(0, {1, 5}, put_if_absent(Outcome::kDone, 11, 1)),
                      at(1, {2, 6}, put_if_absent(Outcome::kDone, 12, 2))})
                   .is_good());
}

TEST(Bad, conditions_that_should_have_been_answered_otherwise) {
  const Operation first = at(0, {1, 2}, put(10, 1));
  EXPECT_FALSE(judge({first, at(1, {3, 4}, put_if(1, Outcome::kMismatch, 11))}).is_good());
  EXPECT_FALSE(judge({first, at(1, {3, 4}, put_if(1, Outcome::kAbsent, 11))}).is_good());
  EXPECT_FALSE(judge({first, at(1, {3, 4}, put_if(2, Outcome::kDone, 11, 2))}).is_good());
  EXPECT_FALSE(judge({at(1, {3, 4}, put_if_absent(Outcome::kExists, 11))}).is_good());
  EXPECT_TRUE(judge({first, at(1, {3, 4}, put_if(2, Outcome::kMismatch, 11))}).is_good());
}

// A put whose version no client was told, and conditions that were told that it is not theirs: the last of
// them names the version that it then turns out to have. As many as there are, each counts.
TEST(Bad, a_version_that_any_number_of_conditions_were_told_is_not_there) {
  for (uint64_t mismatches = 1; mismatches <= 9; ++mismatches) {
    for (uint64_t told = 1; told <= mismatches; ++told) {
      std::vector<Operation> all = {at(0, {1, 2}, put(10, 1)), at(1, {3, kNever}, put_unknown(11)),
                                    at(2, {4, 5}, got(11, 0))};
      for (uint64_t i = 1; i <= mismatches; ++i) {
        all.push_back(at(0, {10 * i, 10 * i + 1}, put_if(10 + i, Outcome::kMismatch, 100 + i)));
      }
      all.push_back(at(0, {200, 201}, put_if(10 + told, Outcome::kDone, 99, 50)));
      EXPECT_FALSE(judge(all).is_good()) << told << " of " << mismatches;
      all.back().if_version = 10 + mismatches + 1;
      const Judgement other = judge(all);
      EXPECT_TRUE(other.is_good()) << told << " of " << mismatches;
      EXPECT_EQ(other.excluded_max, mismatches);
    }
  }
}

Operation cas(uint64_t from, uint64_t to, Outcome outcome) {
  return {.kind = Kind::kPut, .outcome = outcome, .if_value = from, .value = to};
}

TEST(Good, values_that_come_again_are_compared_and_set) {
  EXPECT_TRUE(judge({at(0, {1, 2}, put(5, 0)), at(1, {3, 4}, cas(5, 6, Outcome::kDone)),
                     at(0, {5, 6}, cas(5, 7, Outcome::kUnmet)), at(1, {7, 8}, cas(6, 5, Outcome::kDone)),
                     at(2, {9, 10}, got(5, 0)), at(0, {11, 12}, cas(6, 7, Outcome::kMismatch))})
                  .is_good());
  EXPECT_TRUE(judge({at(0, {1, 2}, cas(5, 6, Outcome::kUnmet))}).is_good()) << "there is none";
}

TEST(Bad, values_that_were_not_there_when_they_were_compared) {
  const Operation first = at(0, {1, 2}, put(5, 0));
  EXPECT_FALSE(judge({first, at(1, {3, 4}, cas(6, 7, Outcome::kDone))}).is_good());
  EXPECT_FALSE(judge({first, at(1, {3, 4}, cas(5, 7, Outcome::kUnmet))}).is_good());
  EXPECT_FALSE(judge({first, at(1, {3, 4}, cas(5, 7, Outcome::kMismatch))}).is_good());
  EXPECT_FALSE(judge({at(0, {3, 4}, cas(5, 7, Outcome::kMismatch))}).is_good());
  EXPECT_FALSE(
      judge({first, at(1, {3, 6}, cas(5, 7, Outcome::kDone)), at(2, {4, 7}, cas(5, 8, Outcome::kDone))})
          .is_good())
      << "a lost update";
}

TEST(Undecided, where_an_unmet_condition_meets_an_entry_that_expires) {
  Operation expiring = at(0, {1, 2}, put(10, 1));
  expiring.expires_from_ns = 10;
  expiring.expires_until_ns = 20;
  const Judgement judgement = judge({expiring, at(1, {12, 13}, cas(10, 11, Outcome::kUnmet))});
  EXPECT_FALSE(judgement.is_good());
  EXPECT_FALSE(judgement.violation);
}

TEST(Bad, an_erased_entry_that_comes_back) {
  EXPECT_FALSE(judge({at(0, {1, 2}, put(10, 1)), at(0, {3, 4}, erased(1)), at(1, {5, 6}, got_nothing()),
                      at(1, {7, 8}, got(10, 1))})
                   .is_good());
}

TEST(Bad, an_entry_that_is_erased_twice) {
  EXPECT_FALSE(
      judge({at(0, {1, 2}, put(10, 1)), at(0, {3, 6}, erased(1)), at(1, {4, 7}, erased(1))}).is_good());
}

TEST(Bad, a_value_that_was_never_written_or_was_refused) {
  const Judgement never = judge({at(0, {1, 2}, put(10, 1)), at(1, {3, 4}, got(99, 2))});
  ASSERT_TRUE(never.violation);
  EXPECT_NE(never.violation->sentence.find("no client ever put"), std::string::npos);
  const Judgement refused =
      judge({at(0, {1, 2}, put_if_absent(Outcome::kExists, 10)), at(1, {3, 4}, got(10, 1))});
  ASSERT_TRUE(refused.violation);
  EXPECT_EQ(judge({at(1, {1, 2}, got(10, 1)), at(0, {3, 4}, put(10, 1))}).violation->sentence.find("later") ==
                std::string::npos,
            false);
}

TEST(Bad, an_expired_entry_that_is_served_or_a_live_one_that_is_not) {
  Operation expiring = at(0, {1, 2}, put(10, 1));
  expiring.expires_from_ns = 10;
  expiring.expires_until_ns = 20;
  EXPECT_FALSE(judge({expiring, at(1, {21, 22}, got(10, 1))}).is_good());
  EXPECT_FALSE(judge({expiring, at(1, {8, 9}, got_nothing())}).is_good());
}

TEST(Bad, an_acknowledged_put_that_a_crash_took_back) {
  EXPECT_FALSE(
      judge({at(0, {1, 2}, put(10, 1)), at(0, {3, 4}, put(11, 2)), at(1, {9, 10}, got(10, 1))}).is_good());
  EXPECT_FALSE(judge({at(0, {1, 2}, put(10, 1)), at(1, {9, 10}, got_nothing())}).is_good());
}

TEST(Bad, versions_that_do_not_grow) {
  const History history{.clients = {"a", "b"},
                        .keys = {"one", "two"},
                        .operations = {at(0, {1, 2}, put(10, 5)), at(1, {3, 4}, put(20, 4))}};
  History other_key = history;
  other_key.operations[1].key = 1;
  EXPECT_TRUE(check_versions(history));
  EXPECT_TRUE(check(other_key).is_good());
  EXPECT_TRUE(check_versions(other_key));
  EXPECT_FALSE(check_versions(other_key, {true, false}));
  other_key.operations[1].version = 6;
  EXPECT_FALSE(check_versions(other_key));
  other_key.operations[1].version = 5;
  EXPECT_TRUE(check_versions(other_key)) << "given twice";
}

// A stale read among reads and puts that have nothing to do with it.
History long_history() {
  std::vector<Operation> all;
  uint64_t now = 1;
  for (uint64_t i = 1; i <= 50; ++i) {
    all.push_back(at(0, {now, now + 3}, put(100 + i, i)));
    all.push_back(at(1, {now + 1, now + 5}, got(100 + i, i)));
    all.push_back(at(2, {now + 4, now + 6}, got(100 + i, i)));
    now += 10;
  }
  all.push_back(at(2, {now, now + 1}, got(149, 49)));
  return {.clients = {"alice", "bob", "<carol>"}, .keys = {"key"}, .operations = all};
}

TEST(Picture, the_smallest_window_has_only_what_contradicts) {
  const History history = long_history();
  const Judgement judgement = check(history);
  ASSERT_TRUE(judgement.violation);
  const Violation& violation = *judgement.violation;
  EXPECT_EQ(violation.convicted, history.operations.size() - 1);
  // Of the many that saw version 50, one is enough.
  EXPECT_EQ(violation.involved.size(), 2U) << draw_text(history, violation);
}

TEST(Picture, text_and_svg_name_the_clients_and_the_convicted) {
  const History history = long_history();
  const Violation violation = check(history).violation.value();
  const std::string text = draw_text(history, violation);
  EXPECT_NE(text.find("!! "), std::string::npos);
  EXPECT_NE(text.find("get -> #149 of version 49"), std::string::npos);
  EXPECT_NE(text.find("<carol>"), std::string::npos);
  const std::string svg = draw_svg(history, violation);
  EXPECT_TRUE(svg.starts_with("<svg "));
  EXPECT_NE(svg.find("&lt;carol&gt;"), std::string::npos);
  EXPECT_EQ(svg.find("<carol>"), std::string::npos);
  EXPECT_NE(svg.find("#c00000"), std::string::npos);
}

TEST(Recording, an_operation_that_never_returns_is_unknown_and_a_get_without_answer_says_nothing) {
  Recorder recorder;
  const uint32_t client = recorder.client("a");
  EXPECT_EQ(recorder.client("a"), client);
  const uint32_t key = recorder.key("k");
  (void)recorder.begin({.client = client, .key = key, .kind = Kind::kPut, .value = 7}, 10);
  (void)recorder.begin({.client = client, .key = key, .kind = Kind::kGet}, 20);
  const size_t get = recorder.begin({.client = client, .key = key, .kind = Kind::kGet}, 30);
  recorder.end(get, {.outcome = Outcome::kDone, .value = 7, .version = 1, .now_ns = 40});
  EXPECT_EQ(recorder.operation(0).outcome, Outcome::kUnknown);
  EXPECT_TRUE(check(recorder.history()).is_good());
  EXPECT_LT(recorder.operation(get).began, recorder.operation(get).ended);
}

}  // namespace
}  // namespace refract::linearizability
