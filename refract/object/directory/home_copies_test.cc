// SPDX-License-Identifier: Apache-2.0
// What a home knows of bound copies, rule by rule: which wish is the later one, which copies count for it,
// and which may be let go.
#include <gtest/gtest.h>

#include <initializer_list>

#include "refract/object/directory/home_table.h"

namespace refract::object::home_copies_test {
namespace {

constexpr ObjectParts kParts{.body_bytes = 3, .metadata_bytes = 2, .id_bytes = 2};
constexpr uint64_t kBirth = 7;

HomeTable::MemberSet set_of(std::initializer_list<size_t> members) {
  HomeTable::MemberSet set;
  for (const size_t member : members) set.set(member);
  return set;
}

class HomeCopies : public testing::Test {
 protected:
  HomeCopies() {
    table.begin(4);
    for (MemberIndex member = 0; member < 4; ++member) report(member);
  }
  void report(MemberIndex member) {
    table.open_stream(member, {1, member});
    table.end_report(member);
  }
  void holds(MemberIndex member, CopiesWord word = {}, uint64_t birth = kBirth) {
    (void)table.holds(member, "id", birth, kParts, word);
  }
  [[nodiscard]] HomeTable::Bound bound() const { return table.bound("id", kBirth); }

  HomeTable table;
};

TEST_F(HomeCopies, a_wish_is_a_number_that_grows) {
  EXPECT_FALSE(table.wish("id", kBirth, 2)) << "there is no such birth";
  holds(0);
  EXPECT_TRUE(table.wish("id", kBirth, 2));
  EXPECT_EQ(bound().wish, CopiesWord::of(1, 2));
  EXPECT_FALSE(table.wish("id", kBirth, 2)) << "it is so already";
  EXPECT_TRUE(table.wish("id", kBirth, 0));
  EXPECT_EQ(bound().wish, CopiesWord::of(2, 0));
  EXPECT_LT(CopiesWord::of(1, 16), CopiesWord::of(2, 0));
  // Another one that a home before this one has numbered.
  holds(1, CopiesWord::of(CopiesWord::kVersionMax, 3));
  EXPECT_EQ(bound().wish.wanted(), 3);
  EXPECT_FALSE(table.wish("id", kBirth, 1)) << "the number would begin again";
}

TEST_F(HomeCopies, a_copy_counts_that_has_said_this_very_wish_in_a_stream_that_stands) {
  holds(0, CopiesWord::of(1, 2));
  holds(1, CopiesWord::of(1, 2));
  holds(2);
  table.comes(3, "id", kBirth, kParts);
  EXPECT_EQ(bound().counted, set_of({0, 1}));
  EXPECT_EQ(bound().bound, set_of({0, 1}));
  EXPECT_EQ(bound().loose, set_of({2}));
  EXPECT_EQ(bound().coming, set_of({3}));
  EXPECT_EQ(table.look_up("id").counted, 2);
  EXPECT_EQ(table.look_up("id").wish.wanted(), 2);

  // Its stream ends: it is bound still, as far as is known.
  table.close_stream(1);
  EXPECT_EQ(bound().counted, set_of({0}));
  EXPECT_EQ(bound().bound, set_of({0, 1}));
  // A new one, which has not repeated it.
  table.open_stream(1, {1, 1});
  EXPECT_EQ(bound().counted, set_of({0}));
  holds(1, CopiesWord::of(1, 2));
  EXPECT_EQ(bound().counted, set_of({0})) << "its report has not ended";
  table.end_report(1);
  EXPECT_EQ(bound().counted, set_of({0, 1}));

  ASSERT_TRUE(table.wish("id", kBirth, 3));
  EXPECT_EQ(bound().counted, set_of({})) << "if this home is lost, so is the wish";
  EXPECT_EQ(bound().behind, set_of({0, 1}));
  holds(0, CopiesWord::of(2, 3));
  EXPECT_EQ(bound().counted, set_of({0}));
  EXPECT_EQ(bound().behind, set_of({1}));
}

TEST_F(HomeCopies, another_memory_has_no_copy) {
  holds(0, CopiesWord::of(1, 2));
  holds(1, CopiesWord::of(1, 2));
  table.open_stream(1, {2, 1});
  EXPECT_EQ(bound().bound, set_of({0}));
}

TEST_F(HomeCopies, one_is_let_go_if_enough_others_count) {
  holds(0, CopiesWord::of(1, 2));
  holds(1, CopiesWord::of(1, 2));
  EXPECT_EQ(table.release(0, "id", kBirth), Code::kUnavailable);
  holds(2, CopiesWord::of(1, 2));
  table.close_stream(2);
  EXPECT_EQ(table.release(0, "id", kBirth), Code::kUnavailable) << "who is away does not count";
  report(2);
  holds(2, CopiesWord::of(1, 2));
  EXPECT_EQ(table.release(0, "id", kBirth), Code::kOk);
  // In the same step: of two that ask at the same moment one is told no.
  EXPECT_EQ(bound().counted, set_of({1, 2}));
  EXPECT_EQ(table.release(1, "id", kBirth), Code::kUnavailable);
  EXPECT_EQ(bound().loose, set_of({0}));
  EXPECT_EQ(table.release(3, "id", kBirth), Code::kOk) << "it has none";
  ASSERT_TRUE(table.wish("id", kBirth, 0));
  EXPECT_EQ(table.release(1, "id", kBirth), Code::kOk);
}

TEST_F(HomeCopies, an_id_with_two_births_is_told_apart) {
  holds(0, CopiesWord::of(1, 2));
  EXPECT_TRUE(bound().is_alone);
  (void)table.holds(1, "id", 9, kParts);
  EXPECT_FALSE(bound().is_alone);
  EXPECT_EQ(table.bound("id", 9).wish, CopiesWord());
}

TEST_F(HomeCopies, what_has_a_wish_is_listed_as_long_as_it_is_there) {
  for (const char* id : {"c", "a", "b"}) {
    (void)table.holds(0, id, kBirth, kParts);
    ASSERT_TRUE(table.wish(id, kBirth, 2));
  }
  const auto first = table.wished_behind({}, 2);
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first.back().first, "b");
  EXPECT_EQ(table.wished_behind(first.back(), 2).size(), 1U);
  table.bury("a", kBirth);
  table.gone(0, "b", kBirth);
  EXPECT_EQ(table.wished_behind({}, 9).size(), 1U);
  table.begin(4);
  EXPECT_TRUE(table.wished_behind({}, 9).empty());
}

}  // namespace
}  // namespace refract::object::home_copies_test
