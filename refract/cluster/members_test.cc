// SPDX-License-Identifier: Apache-2.0
// Which lists replace the one that a node has.
#include "refract/cluster/members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace refract::cluster::members_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

MemberList parsed(std::string_view text) {
  auto list = parse_member_list(text, ListForm::kSetting);
  EXPECT_TRUE(list) << list.error().to_string();
  return list ? *std::move(list) : MemberList{};
}

class MembersTest : public testing::Test {
 protected:
  MembersTest() {
    members_.call_on_change([this](const Members& now) { heard_.push_back(now.list().version); });
  }

  // Empty: it was not refused.
  std::string refusal(std::string_view text) {
    const MemberList before = members_.list();
    const auto taken = members_.take(parsed(text));
    if (taken) return {};
    EXPECT_EQ(taken.error().code, Code::kInvalidArgument);
    EXPECT_EQ(members_.list(), before);
    return taken.error().what;
  }

  Members members_ = *Members::create(parsed("version=5,a=h:1,b=h:2"), "b");
  std::vector<uint64_t> heard_;
};

TEST_F(MembersTest, a_newer_list_is_taken_and_told) {
  EXPECT_TRUE(*members_.take(parsed("version=6,a=h:1,aa=h:3,b=h:2")));
  EXPECT_EQ(members_.list().version, 6U);
  EXPECT_EQ(members_.self(), 2U);
  EXPECT_EQ(members_.self_name(), "b");
  EXPECT_TRUE(*members_.take(parsed("version=100,b=elsewhere:2")));
  EXPECT_EQ(members_.self(), 0U);
  EXPECT_THAT(heard_, ElementsAre(6, 100));
}

TEST_F(MembersTest, the_same_list_changes_nothing) {
  EXPECT_FALSE(*members_.take(parsed("version=5,b=h:2,a=h:1")));
  EXPECT_THAT(heard_, ElementsAre());
}

TEST_F(MembersTest, an_older_list_is_refused) {
  EXPECT_EQ(refusal("version=4,a=h:1,b=h:2"), "its version is 4, which is older than version 5");
  EXPECT_THAT(heard_, ElementsAre());
}

// A list that returns, after another one, is not the list of before.
TEST_F(MembersTest, a_list_never_returns) {
  EXPECT_EQ(refusal("version=6,a=h:1,b=h:2,c=h:3"), "");
  EXPECT_THAT(refusal("version=5,a=h:1,b=h:2"), HasSubstr("older than version 6"));
}

TEST_F(MembersTest, the_same_version_with_other_names_or_addresses_is_refused) {
  for (const char* text : {"version=5,a=h:1,b=h:3", "version=5,b=h:2", "version=5,a=h:1,b=h:2,c=h:3",
                           "version=5,a=g:1,b=h:2", "version=5,b=h:2,c=h:1"}) {
    EXPECT_EQ(refusal(text), "its version is 5, which is another list's: one with a and b") << text;
  }
  EXPECT_THAT(heard_, ElementsAre());
}

TEST_F(MembersTest, a_list_without_the_node_itself_is_refused) {
  EXPECT_EQ(refusal("version=6,a=h:1,c=h:2"), "this node's name, 'b', is not in the list, which has a and c");
  const auto none = Members::create(parsed("a=h:1,b=h:2"), "host\x1b[m");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().what, "this node's name, 'host\\x1b[m', is not in the list, which has a and b");
  EXPECT_THAT(none.error().next, HasSubstr("cluster.self"));
}

TEST_F(MembersTest, a_list_that_makes_no_sense_is_refused) {
  MemberList list = parsed("version=6,a=h:1,b=h:2");
  std::swap(list.members[0], list.members[1]);
  EXPECT_FALSE(members_.take(list));
  EXPECT_FALSE(Members::create(list, "a"));
  EXPECT_EQ(members_.list().version, 5U);
}

}  // namespace
}  // namespace refract::cluster::members_test
