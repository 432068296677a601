// SPDX-License-Identifier: Apache-2.0
#include "refract/cluster/placement.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "refract/base/testing/needed.h"

namespace refract::cluster {
namespace {

MemberList setting(std::string_view text) {
  return test::needed(parse_member_list(text, ListForm::kSetting));
}

TEST(Placement, each_slot_is_one_members_and_none_is_left) {
  const MemberList list = setting("a=10.0.0.1:1,b=10.0.0.2:1,c=10.0.0.3:1");
  SlotSet all;
  for (size_t member = 0; member < 3; ++member) {
    const SlotSet slots = slots_of(list, member);
    EXPECT_TRUE((all & slots).none());
    EXPECT_NEAR(static_cast<double>(slots.count()), kSlots / 3.0, kSlots / 50.0);
    all |= slots;
  }
  EXPECT_TRUE(all.all());
}

// What is stored depends on it.
TEST(Placement, is_the_same_for_ever) {
  const MemberList list = setting("a=10.0.0.1:1,b=10.0.0.2:1,c=10.0.0.3:1");
  EXPECT_EQ(placement_of(list, 0), 15247508593091232700U);
  EXPECT_EQ(placement_of(list, 2), 11992900571030682296U);
  EXPECT_EQ(slots_of(list, 1).count(), 5455U);
}

TEST(Placement, is_another_one_with_other_names_or_as_another_member_and_not_with_other_addresses) {
  std::set<uint64_t> seen;
  for (const char* text : {"a=h:1", "b=h:1", "a=h:1,b=h:2", "ab=h:1", "a=h:1,b=h:2,c=h:3"}) {
    const MemberList list = setting(text);
    for (size_t member = 0; member < list.members.size(); ++member) {
      EXPECT_TRUE(seen.insert(placement_of(list, member)).second) << text << " " << member;
    }
  }
  const MemberList moved = setting("version=9,b=other:2,a=h:1");
  EXPECT_EQ(placement_of(moved, 1), placement_of(setting("a=h:1,b=h:2"), 1));
  EXPECT_TRUE(have_same_names(moved, setting("a=h:1,b=h:2")));
  EXPECT_FALSE(have_same_names(moved, setting("a=h:1,c=h:2")));
  EXPECT_FALSE(have_same_names(moved, setting("a=h:1")));
}

}  // namespace
}  // namespace refract::cluster
