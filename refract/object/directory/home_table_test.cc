// SPDX-License-Identifier: Apache-2.0
// What a home knows, rule by rule: streams and reports, claims, conflicts, births that linger, look-ups and
// tombstones. home_table_random_test.cc has what follows from them together.
#include "refract/object/directory/home_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

namespace refract::object::home_table_test {
namespace {

using Members = std::vector<MemberIndex>;
using Named = HomeTable::Named;

constexpr ObjectParts kParts{.body_bytes = 3, .metadata_bytes = 2, .id_bytes = 5};

HomeTable::MemberSet set_of(std::initializer_list<size_t> members) {
  HomeTable::MemberSet set;
  for (const size_t member : members) set.set(member);
  return set;
}

// Three members, whose streams a test opens.
class HomeTableTest : public testing::Test {
 protected:
  HomeTableTest() { table.begin(3); }

  void open(MemberIndex member, uint64_t memory = 1) { table.open_stream(member, {memory, member}); }
  // A report of nothing.
  void report(MemberIndex member, uint64_t memory = 1) {
    open(member, memory);
    table.end_report(member);
  }
  void report_all() {
    for (MemberIndex member = 0; member < 3; ++member) report(member);
  }
  Code holds(MemberIndex member, uint64_t birth, std::string_view id = "id") {
    return table.holds(member, id, birth, kParts);
  }
  Code claims(MemberIndex member, uint64_t birth, std::string_view id = "id") {
    return table.claims(member, id, birth, false);
  }
  Code reports_claim(MemberIndex member, uint64_t birth) { return table.claims(member, "id", birth, true); }
  [[nodiscard]] Members holders(std::string_view id = "id") const {
    Members holders = table.look_up(id).holders;
    std::ranges::sort(holders);
    return holders;
  }

  HomeTable table;
};

// --- Streams ---

TEST_F(HomeTableTest, it_is_complete_when_each_member_has_ended_a_report) {
  EXPECT_FALSE(table.is_complete());
  EXPECT_EQ(table.unknown(), set_of({0, 1, 2}));
  report(0);
  report(1);
  open(2);
  EXPECT_FALSE(table.is_complete());
  EXPECT_EQ(table.unknown(), set_of({2}));
  table.end_report(2);
  EXPECT_TRUE(table.is_complete());
  EXPECT_TRUE(table.unknown().none());
}

TEST_F(HomeTableTest, a_stream_that_closes_leaves_what_was_said_and_its_member_unknown) {
  report_all();
  EXPECT_EQ(holds(1, 7), Code::kOk);
  table.close_stream(1);
  EXPECT_TRUE(table.is_complete());
  EXPECT_EQ(table.unknown(), set_of({1}));
  EXPECT_EQ(holders(), Members{1});
  open(1);
  EXPECT_EQ(table.unknown(), set_of({1})) << "its report has not ended";
  EXPECT_EQ(holders(), Members{1});
}

TEST_F(HomeTableTest, what_a_report_does_not_repeat_is_forgotten_at_its_end) {
  report_all();
  EXPECT_EQ(holds(1, 7, "stays"), Code::kOk);
  EXPECT_EQ(holds(1, 8, "goes"), Code::kOk);
  EXPECT_EQ(holds(2, 8, "goes"), Code::kOk);
  EXPECT_EQ(claims(1, 9, "claim"), Code::kOk);
  table.comes(1, "goes too", 10, kParts);
  open(1);
  EXPECT_EQ(holds(1, 7, "stays"), Code::kOk);
  EXPECT_EQ(holders("goes"), (Members{1, 2}));
  table.end_report(1);
  EXPECT_EQ(holders("stays"), Members{1});
  EXPECT_EQ(holders("goes"), Members{2});
  EXPECT_EQ(holders("goes too"), Members{});
  EXPECT_EQ(claims(2, 11, "claim"), Code::kOk);
  EXPECT_EQ(table.counts().ids, 3U);
}

TEST_F(HomeTableTest, another_memory_has_nothing_of_the_one_before) {
  report_all();
  EXPECT_EQ(holds(1, 7), Code::kOk);
  EXPECT_EQ(claims(1, 9, "claim"), Code::kOk);
  open(1, 2);
  EXPECT_FALSE(table.is_complete()) << "this memory has not reported";
  EXPECT_EQ(holders(), Members{});
  EXPECT_EQ(table.count_claims(), 0U);
  EXPECT_EQ(claims(0, 10), Code::kUnavailable);
  table.end_report(1);
  EXPECT_TRUE(table.is_complete());
  EXPECT_EQ(claims(0, 10), Code::kOk);
  EXPECT_EQ(claims(0, 11, "claim"), Code::kOk);
}

TEST_F(HomeTableTest, a_new_list_begins_with_nothing) {
  report_all();
  EXPECT_EQ(holds(1, 7), Code::kOk);
  table.bury("other", 8);
  table.begin(2);
  EXPECT_FALSE(table.is_complete());
  EXPECT_EQ(table.unknown(), set_of({0, 1}));
  EXPECT_FALSE(table.is_buried("other", 8));
  EXPECT_EQ(table.counts().ids, 0U);
  EXPECT_EQ(table.counts().tombstones, 0U);
}

TEST_F(HomeTableTest, a_list_of_the_most_members_has_each_of_them) {
  table.begin(cluster::kMembersMax);
  EXPECT_EQ(table.unknown().count(), cluster::kMembersMax);
  table.bury("id", 7);
  for (size_t member = 0; member < cluster::kMembersMax; ++member) {
    EXPECT_FALSE(table.is_complete());
    EXPECT_TRUE(table.is_buried("id", 7));
    report(static_cast<MemberIndex>(member));
    EXPECT_EQ(table.acknowledge(static_cast<MemberIndex>(member), "id", 7),
              member + 1 == cluster::kMembersMax);
  }
  EXPECT_TRUE(table.is_complete());
  EXPECT_TRUE(table.unknown().none());
}

// --- What members say ---

TEST_F(HomeTableTest, holders_stand_before_those_to_which_a_copy_comes) {
  report_all();
  table.comes(0, "id", 7, kParts);
  EXPECT_EQ(table.look_up("id").birth, 7U);
  EXPECT_EQ(holds(1, 7), Code::kOk);
  table.comes(2, "id", 7, {});
  EXPECT_EQ(table.look_up("id").holders, (Members{1, 0, 2}));
  EXPECT_EQ(table.look_up("id").parts.body_bytes, 3U) << "a copy that comes says nothing of lengths";
  // What has come does not come again.
  table.comes(1, "id", 7, kParts);
  EXPECT_EQ(table.look_up("id").holders, (Members{1, 0, 2}));
  EXPECT_EQ(holds(2, 7), Code::kOk);
  EXPECT_EQ(table.look_up("id").holders, (Members{1, 2, 0}));
  table.gone(0, "id", 7);
  EXPECT_EQ(table.look_up("id").holders, (Members{1, 2}));
}

// It is asked for during a report which does not say again that it is there.
TEST_F(HomeTableTest, what_comes_counts_beside_what_was_said_before_the_report) {
  report_all();
  EXPECT_EQ(holds(1, 7), Code::kOk);
  table.close_stream(1);
  open(1);
  table.comes(1, "id", 7, kParts);
  table.end_report(1);
  EXPECT_EQ(holders(), Members{1});
  EXPECT_EQ(claims(0, 8), Code::kExists);
}

TEST_F(HomeTableTest, what_all_have_dropped_is_gone) {
  report_all();
  EXPECT_EQ(holds(1, 7), Code::kOk);
  EXPECT_EQ(holds(2, 7), Code::kOk);
  table.gone(1, "id", 8);
  table.gone(1, "nothing", 7);
  EXPECT_EQ(holders(), (Members{1, 2}));
  table.gone(1, "id", 7);
  table.gone(1, "id", 7);
  EXPECT_EQ(holders(), Members{2});
  table.gone(2, "id", 7);
  EXPECT_EQ(table.look_up("id").birth, 0U);
  EXPECT_TRUE(table.look_up("id").doubtful.none());
  EXPECT_EQ(table.counts().ids, 0U);
}

TEST_F(HomeTableTest, a_claim_ends_with_its_seal) {
  report_all();
  EXPECT_EQ(claims(1, 7), Code::kOk);
  EXPECT_EQ(table.count_claims(), 1U);
  // Sealed by a put that was sent again, elsewhere: the claim stays its member's.
  EXPECT_EQ(holds(2, 7), Code::kOk);
  EXPECT_EQ(table.count_claims(), 1U);
  EXPECT_EQ(holds(1, 7), Code::kOk);
  EXPECT_EQ(table.count_claims(), 0U);
}

// --- Claims ---

TEST_F(HomeTableTest, a_claim_is_granted_to_one_birth_of_one_member) {
  report_all();
  EXPECT_FALSE(table.has_other("id", 8));
  EXPECT_EQ(claims(1, 7), Code::kOk);
  EXPECT_EQ(claims(1, 7), Code::kOk) << "the same birth, again";
  EXPECT_EQ(claims(2, 7), Code::kExists);
  EXPECT_EQ(claims(2, 8), Code::kExists);
  EXPECT_EQ(claims(1, 8), Code::kExists);
  EXPECT_TRUE(table.has_other("id", 8));
  EXPECT_FALSE(table.has_other("id", 7));
  table.unclaims(2, "id", 7);
  table.unclaims(1, "id", 8);
  EXPECT_EQ(claims(2, 8), Code::kExists) << "the claim was another's";
  table.unclaims(1, "id", 7);
  EXPECT_EQ(claims(2, 8), Code::kOk);
}

TEST_F(HomeTableTest, what_a_member_has_is_claimed_by_no_other) {
  report_all();
  EXPECT_EQ(holds(1, 7), Code::kOk);
  EXPECT_EQ(claims(2, 8), Code::kExists);
  EXPECT_EQ(claims(2, 7), Code::kExists);
  EXPECT_EQ(claims(1, 7), Code::kOk) << "its own birth";
  table.comes(0, "id", 7, kParts);
  table.unclaims(1, "id", 7);
  table.gone(1, "id", 7);
  EXPECT_EQ(claims(2, 8), Code::kExists) << "a copy comes";
}

TEST_F(HomeTableTest, nothing_is_granted_before_all_have_reported) {
  report(0);
  report(1);
  EXPECT_EQ(claims(1, 7), Code::kUnavailable);
  EXPECT_EQ(table.counts().ids, 0U);
  open(2);
  EXPECT_EQ(claims(1, 7), Code::kUnavailable);
  EXPECT_EQ(reports_claim(2, 8), Code::kOk) << "a home before this one has granted it";
  table.end_report(2);
  EXPECT_EQ(claims(1, 7), Code::kExists);
}

TEST_F(HomeTableTest, a_reported_claim_is_refused_once_all_have_reported) {
  report_all();
  EXPECT_EQ(holds(0, 7), Code::kOk);
  open(1);
  EXPECT_EQ(reports_claim(1, 8), Code::kExists);
  table.gone(0, "id", 7);
  EXPECT_EQ(reports_claim(1, 8), Code::kUnavailable) << "member 1 may have the other birth";
  table.end_report(1);
  EXPECT_EQ(claims(1, 8), Code::kOk);
}

TEST_F(HomeTableTest, a_birth_that_was_deleted_is_refused) {
  report_all();
  EXPECT_EQ(holds(1, 7), Code::kOk);
  table.bury("id", 7);
  EXPECT_EQ(holders(), Members{});
  EXPECT_EQ(holds(1, 7), Code::kCancelled);
  EXPECT_EQ(claims(1, 7), Code::kCancelled);
  EXPECT_EQ(reports_claim(1, 7), Code::kCancelled);
  table.comes(2, "id", 7, kParts);
  EXPECT_EQ(table.counts().ids, 0U);
  EXPECT_EQ(claims(1, 8), Code::kUnavailable) << "its maker knows of the delete first";
  EXPECT_FALSE(table.acknowledge(1, "id", 7));
  EXPECT_EQ(claims(1, 8), Code::kOk) << "another birth may be made";
  EXPECT_EQ(holds(1, 8), Code::kOk);
}

// --- Births that linger ---

TEST_F(HomeTableTest, a_birth_without_a_holder_lingers_while_a_member_may_have_it) {
  report_all();
  EXPECT_EQ(holds(1, 7), Code::kOk);
  table.close_stream(2);
  table.gone(1, "id", 7);
  EXPECT_EQ(table.counts().lingering, 1U);
  EXPECT_EQ(claims(1, 8), Code::kUnavailable) << "member 2 may have a copy";
  EXPECT_EQ(claims(1, 7), Code::kOk) << "it is the same birth";
  table.unclaims(1, "id", 7);
  EXPECT_FALSE(table.has_other("id", 8));
  EXPECT_EQ(table.look_up("id").birth, 0U);
  EXPECT_EQ(table.look_up("id").doubtful, set_of({2}));
  EXPECT_EQ(claims(1, 9, "new"), Code::kOk) << "of this id no birth was known";
  report(2);
  EXPECT_EQ(table.counts().lingering, 0U);
  EXPECT_EQ(claims(1, 8), Code::kOk);
}

TEST_F(HomeTableTest, a_member_that_has_what_lingers_reports_it) {
  report_all();
  EXPECT_EQ(holds(1, 7), Code::kOk);
  table.close_stream(2);
  table.gone(1, "id", 7);
  open(2);
  EXPECT_EQ(holds(2, 7), Code::kOk);
  table.end_report(2);
  EXPECT_EQ(table.counts().lingering, 0U);
  EXPECT_EQ(holders(), Members{2});
  EXPECT_EQ(claims(1, 8), Code::kExists);
}

TEST_F(HomeTableTest, births_of_a_lost_memory_linger_until_the_next_one_has_reported) {
  report_all();
  EXPECT_EQ(holds(1, 7), Code::kOk);
  table.close_stream(2);
  open(1, 2);
  EXPECT_EQ(table.counts().lingering, 1U);
  table.end_report(1);
  EXPECT_EQ(table.counts().lingering, 1U) << "member 2 may have a copy";
  report(2);
  EXPECT_EQ(table.counts().lingering, 0U);
}

TEST_F(HomeTableTest, beyond_the_most_that_linger_no_unknown_id_is_granted) {
  report_all();
  table.close_stream(2);
  for (size_t i = 0; i < HomeTable::kLingeringMax; ++i) {
    const std::string id = std::to_string(i);
    // What was given up before it was made does not linger.
    ASSERT_EQ(claims(1, 7, "given up"), Code::kOk) << i;
    table.unclaims(1, "given up", 7);
    ASSERT_EQ(holds(1, 7, id), Code::kOk) << i;
    table.gone(1, id, 7);
  }
  EXPECT_EQ(table.counts().lingering, HomeTable::kLingeringMax);
  EXPECT_EQ(claims(1, 8, "new"), Code::kUnavailable);
  EXPECT_EQ(claims(1, 7, "0"), Code::kOk) << "a birth that is known";
  table.unclaims(1, "0", 7);
  report(2);
  EXPECT_EQ(claims(1, 8, "new"), Code::kOk);
  table.close_stream(2);
  EXPECT_EQ(claims(1, 8, "newer"), Code::kOk) << "none lingers any more";
}

// Copies that come and go, and claims that are given up and asked for again, are no births that linger.
TEST_F(HomeTableTest, births_that_linger_are_counted_once) {
  report_all();
  EXPECT_EQ(holds(0, 7), Code::kOk);
  table.close_stream(2);
  for (size_t i = 0; i < HomeTable::kLingeringMax; ++i) {
    ASSERT_EQ(holds(1, 7), Code::kOk);
    table.gone(1, "id", 7);
    table.gone(1, "id", 7);
    ASSERT_EQ(claims(1, 8, "tried often"), Code::kOk);
    table.unclaims(1, "tried often", 8);
    ASSERT_EQ(holds(1, 9, "alone"), Code::kOk);
    table.gone(1, "alone", 9);
    ASSERT_EQ(claims(1, 10 + i, "deleted"), Code::kOk);
    table.unclaims(1, "deleted", 10 + i);
    table.bury("deleted", 10 + i);
    for (MemberIndex member = 0; member < 3; ++member) (void)table.acknowledge(member, "deleted", 10 + i);
  }
  EXPECT_EQ(table.counts().lingering, 1U);
  EXPECT_EQ(claims(1, 10, "new"), Code::kOk);
}

// --- Conflicts ---

TEST_F(HomeTableTest, births_stand_side_by_side_until_all_have_reported) {
  open(0);
  EXPECT_EQ(holds(0, 7), Code::kOk);
  table.end_report(0);
  open(1);
  EXPECT_EQ(holds(1, 8), Code::kOk);
  table.end_report(1);
  EXPECT_TRUE(table.losers().empty());
  EXPECT_TRUE(table.has_other("id", 7));
  open(2);
  EXPECT_EQ(holds(2, 8), Code::kOk);
  EXPECT_TRUE(table.losers().empty());
  table.end_report(2);
  EXPECT_EQ(table.losers(), (std::vector<Named>{{"id", 7}})) << "the one that most hold stays";
  EXPECT_EQ(table.look_up("id").birth, 8U);
}

TEST_F(HomeTableTest, of_births_that_equally_many_hold_the_smaller_stays) {
  open(0);
  open(1);
  open(2);
  EXPECT_EQ(holds(0, 9), Code::kOk);
  EXPECT_EQ(holds(1, 7), Code::kOk);
  EXPECT_EQ(holds(2, 8), Code::kOk);
  EXPECT_EQ(reports_claim(2, 1), Code::kOk);
  for (MemberIndex member = 0; member < 3; ++member) table.end_report(member);
  std::vector<Named> losers = table.losers();
  std::ranges::sort(losers);
  EXPECT_EQ(losers, (std::vector<Named>{{"id", 1}, {"id", 8}, {"id", 9}})) << "a claim is no holder";
  for (const auto& [id, birth] : losers) table.bury(id, birth);
  EXPECT_TRUE(table.losers().empty());
  EXPECT_EQ(table.look_up("id").birth, 7U);
}

TEST_F(HomeTableTest, of_two_claims_the_smaller_birth_stays) {
  open(0);
  open(1);
  EXPECT_EQ(reports_claim(0, 9), Code::kOk);
  EXPECT_EQ(reports_claim(1, 8), Code::kOk);
  table.end_report(0);
  table.end_report(1);
  EXPECT_TRUE(table.losers().empty());
  report(2);
  EXPECT_EQ(table.losers(), (std::vector<Named>{{"id", 9}}));
}

TEST_F(HomeTableTest, another_birth_than_the_one_that_is_there_is_told_of) {
  report_all();
  EXPECT_EQ(holds(0, 7), Code::kOk);
  EXPECT_EQ(holds(1, 8), Code::kExists);
  EXPECT_EQ(claims(2, 9, "claimed"), Code::kOk);
  EXPECT_EQ(holds(1, 8, "claimed"), Code::kExists);
  // It is known all the same, until it is buried.
  table.bury("id", 8);
  EXPECT_EQ(table.missing("id", 8), set_of({0, 1, 2}));
  EXPECT_EQ(table.look_up("id").birth, 7U);
}

// --- Look-ups ---

TEST_F(HomeTableTest, members_that_may_have_it_are_doubtful) {
  EXPECT_EQ(table.look_up("id").doubtful, set_of({0, 1, 2}));
  open(0);
  EXPECT_EQ(holds(0, 7), Code::kOk);
  const HomeTable::Found early = table.look_up("id");
  EXPECT_EQ(early.holders, Members{0});
  EXPECT_EQ(early.doubtful, set_of({1, 2})) << "a holder is not doubtful, though its report has not ended";
  table.end_report(0);
  report(1);
  report(2);
  EXPECT_TRUE(table.look_up("id").doubtful.none());
  // What is being made is there soon.
  EXPECT_EQ(claims(1, 8, "other"), Code::kOk);
  EXPECT_EQ(table.look_up("other").birth, 0U);
  EXPECT_EQ(table.look_up("other").doubtful, set_of({1}));
  EXPECT_TRUE(table.look_up("nothing").doubtful.none());
  // Of a complete table's ids a member without a stream has none that it does not know.
  table.close_stream(2);
  EXPECT_TRUE(table.look_up("nothing").doubtful.none());
  EXPECT_EQ(holds(1, 9, "last"), Code::kOk);
  table.gone(1, "last", 9);
  EXPECT_EQ(table.look_up("last").doubtful, set_of({2})) << "it may have pulled the last copy";
  table.comes(0, "asked for", 0, {});
  EXPECT_EQ(table.look_up("asked for").doubtful, set_of({0})) << "it may find some birth";
  EXPECT_EQ(claims(1, 10, "asked for"), Code::kUnavailable);
  table.gone(0, "asked for", 0);
  EXPECT_EQ(claims(1, 10, "asked for"), Code::kOk);
}

// Streams that stood one after the other do not make a table that knows all.
TEST_F(HomeTableTest, it_is_complete_when_all_streams_stand_together) {
  report(0);
  report(1);
  table.close_stream(1);
  report(2);
  EXPECT_FALSE(table.is_complete());
  report(1);
  EXPECT_TRUE(table.is_complete());
  table.close_stream(1);
  EXPECT_TRUE(table.is_complete()) << "what it makes from now on is claimed";
}

// --- Deletes ---

TEST_F(HomeTableTest, a_tombstone_goes_when_the_last_member_has_acknowledged_it) {
  report_all();
  EXPECT_TRUE(table.missing("id", 7).none()) << "there is none";
  EXPECT_FALSE(table.acknowledge(0, "id", 7));
  table.bury("id", 7);
  EXPECT_FALSE(table.acknowledge(0, "id", 7));
  EXPECT_FALSE(table.acknowledge(0, "id", 7)) << "the same member, again";
  EXPECT_FALSE(table.acknowledge(1, "id", 8)) << "another birth";
  table.bury("id", 7);
  EXPECT_EQ(table.missing("id", 7), set_of({1, 2})) << "buried again, nothing changes";
  EXPECT_EQ(table.unacknowledged(1), (std::vector<Named>{{"id", 7}}));
  EXPECT_TRUE(table.unacknowledged(0).empty());
  EXPECT_FALSE(table.acknowledge(2, "id", 7));
  EXPECT_TRUE(table.is_buried("id", 7));
  EXPECT_TRUE(table.acknowledge(1, "id", 7));
  EXPECT_FALSE(table.is_buried("id", 7));
  EXPECT_TRUE(table.missing("id", 7).none());
  EXPECT_FALSE(table.acknowledge(1, "id", 7));
  EXPECT_EQ(table.counts().tombstones, 0U);
}

TEST_F(HomeTableTest, births_of_one_id_are_buried_side_by_side) {
  report_all();
  table.bury("id", 7);
  table.bury("id", 8);
  table.bury("other", 7);
  EXPECT_EQ(table.counts().tombstones, 3U);
  for (MemberIndex member = 0; member < 3; ++member) {
    EXPECT_EQ(table.acknowledge(member, "id", 7), member == 2);
  }
  EXPECT_EQ(table.unacknowledged(0), (std::vector<Named>{{"id", 8}, {"other", 7}}));
}

TEST_F(HomeTableTest, another_memory_has_acknowledged_nothing) {
  report_all();
  table.bury("id", 7);
  EXPECT_FALSE(table.acknowledge(1, "id", 7));
  EXPECT_FALSE(table.acknowledge(2, "id", 7));
  open(1);
  EXPECT_EQ(table.missing("id", 7), set_of({0})) << "it is the same memory";
  open(1, 2);
  EXPECT_EQ(table.missing("id", 7), set_of({0, 1}));
  EXPECT_FALSE(table.acknowledge(0, "id", 7));
  EXPECT_TRUE(table.acknowledge(1, "id", 7));
}

}  // namespace
}  // namespace refract::object::home_table_test
