// SPDX-License-Identifier: Apache-2.0
// What may stand in a list of nodes, and by which sentence everything else is refused.
#include "refract/cluster/member_list.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace refract::cluster {
namespace {

using testing::HasSubstr;

MemberList parsed(std::string_view text, ListForm form = ListForm::kSetting) {
  auto list = parse_member_list(text, form);
  EXPECT_TRUE(list) << list.error().to_string();
  return list ? *std::move(list) : MemberList{};
}

std::string refusal(std::string_view text, ListForm form = ListForm::kSetting) {
  const auto list = parse_member_list(text, form);
  if (list) return "taken";
  EXPECT_EQ(list.error().code, Code::kInvalidArgument);
  EXPECT_FALSE(list.error().next.empty());
  return list.error().what;
}

TEST(MemberList, of_a_setting_is_version_1_unless_it_says_another) {
  const MemberList list = parsed("b=10.0.0.2:7400,a=host.example.org:1");
  EXPECT_EQ(list.version, 1U);
  ASSERT_EQ(list.members.size(), 2U);
  EXPECT_EQ(list.members[0], (Member{.name = "a", .host = "host.example.org", .port = 1}));
  EXPECT_EQ(list.members[1], (Member{.name = "b", .host = "10.0.0.2", .port = 7400}));
  EXPECT_EQ(parsed("version=18446744073709551615,a=h:65535").version, UINT64_MAX);
}

TEST(MemberList, of_a_file_has_a_node_in_each_line_and_comments) {
  const MemberList list = parsed(
      "# All of them.\r\n"
      "version = 7\n"
      "\n"
      "  node-1 =\t[fd00::1%eth0]:7400   # the first\n"
      "node-2 = 10.0.0.2:7400, node-3=c:7400,\n",
      ListForm::kFile);
  EXPECT_EQ(list.version, 7U);
  ASSERT_EQ(list.members.size(), 3U);
  EXPECT_EQ(list.members[0].host, "fd00::1%eth0");
  EXPECT_EQ(list.members[0].address(), "[fd00::1%eth0]:7400");
  EXPECT_EQ(list.members[2].address(), "c:7400");
}

TEST(MemberList, does_not_depend_on_the_order_of_its_text) {
  EXPECT_EQ(parsed("a=h:1,b=h:2,c=h:3"), parsed("c=h:3,a=h:1,b=h:2"));
  EXPECT_EQ(parsed("a=h:1,b=h:2"), parsed("version = 1\nb = h:2\na = h:1\n", ListForm::kFile));
  EXPECT_NE(parsed("a=h:1,b=h:2"), parsed("a=h:1,b=h:3"));
}

TEST(MemberList, as_text_is_the_same_list_again) {
  const MemberList list = parsed("version=12,x=[::1]:9,a-b_c.d=10.0.0.1:7400");
  EXPECT_EQ(to_text(list), "version=12,a-b_c.d=10.0.0.1:7400,x=[::1]:9");
  EXPECT_EQ(parsed(to_text(list)), list);
}

TEST(MemberList, finds_members_by_name) {
  const MemberList list = parsed("b=h:1,d=h:2,a=h:3");
  EXPECT_EQ(list.index_of("a"), 0U);
  EXPECT_EQ(list.index_of("d"), 2U);
  EXPECT_EQ(list.index_of("c"), std::nullopt);
  EXPECT_EQ(list.index_of(""), std::nullopt);
}

TEST(MemberList, without_nodes_or_with_too_many_is_refused) {
  for (const char* text : {"", " ", ",", "# nothing", "version=3", "version=3,"}) {
    EXPECT_EQ(refusal(text), "the list names no node") << text;
  }
  std::string text;
  for (size_t i = 0; i < kMembersMax; ++i) text += fmt::format("n{}=h:{},", i, i + 1);
  EXPECT_EQ(parsed(text).members.size(), kMembersMax);
  EXPECT_EQ(refusal(text + "one=h:999"), "there are more than 255 nodes");
  EXPECT_THAT(refusal(std::string(kListTextBytesMax + 1, ' ')), HasSubstr("at most 131072 bytes"));
}

TEST(MemberList, names_and_addresses_that_stand_twice_are_named) {
  EXPECT_EQ(refusal("a=h:1,b=h:2,a=h:3"), "there are two nodes of the name 'a'");
  EXPECT_EQ(refusal("a=h:1,b=h:2,c=h:1"), "nodes 'a' and 'c' have the same address, h:1");
}

TEST(MemberList, names_of_wrong_characters_or_lengths_are_refused) {
  for (const char* name : {"", "a b", "-a", ".a", "_a", "a/b", "a:b", "a\x1b[m", "n\xc3\xa4me", "a'b"}) {
    EXPECT_THAT(refusal(fmt::format("{}=h:1", name)), HasSubstr("cannot be the name of a node")) << name;
  }
  EXPECT_EQ(parsed(std::string(kNameBytesMax, 'n') + "=h:1").members.size(), 1U);
  EXPECT_THAT(refusal(std::string(kNameBytesMax + 1, 'n') + "=h:1"), HasSubstr("cannot be the name"));
  EXPECT_EQ(refusal("a\x1b[m=h:1"), "'a\\x1b[m' cannot be the name of a node");
  EXPECT_THAT(refusal(std::string(5000, 'n') + "=h:1"), HasSubstr("nnn...'"));
  EXPECT_FALSE(check_name("version"));
}

TEST(MemberList, what_is_no_address_is_refused_with_the_nodes_name) {
  for (const char* address : {"",     "h",         "h:",    ":1",    "h:0",      "h:65536",      "h:-1",
                              "h:+1", "h:1x",      "h: 1",  "h:1 2", "::1:7400", "[::1]",        "[h]:1",
                              "[]:1", "[::1:7400", "h h:1", "a=b:1", "h/x:1",    "refract://h:1"}) {
    EXPECT_THAT(refusal(fmt::format("node={}", address)), HasSubstr("of node 'node' is no HOST:PORT"))
        << address;
  }
  EXPECT_EQ(parsed(fmt::format("a={}:1", std::string(kHostBytesMax, 'h'))).members.size(), 1U);
  EXPECT_THAT(refusal(fmt::format("a={}:1", std::string(kHostBytesMax + 1, 'h'))), HasSubstr("no HOST:PORT"));
  EXPECT_EQ(refusal("a=h:1,b"), "'b': expected NAME=HOST:PORT");
}

TEST(MemberList, versions_are_numbers_from_1_on_before_the_nodes) {
  for (const char* version : {"0", "", "-1", "x", "1.5", "18446744073709551616", "7 8"}) {
    EXPECT_THAT(refusal(fmt::format("version={},a=h:1", version)), HasSubstr("expected a number from 1 on"))
        << version;
  }
  EXPECT_EQ(refusal("a=h:1,version=2"), "the version stands once, before the nodes");
  EXPECT_EQ(refusal("version=2,version=2,a=h:1"), "the version stands once, before the nodes");
}

TEST(MemberList, of_a_file_must_have_a_version_and_refusals_name_the_line) {
  EXPECT_EQ(refusal("a=h:1\n", ListForm::kFile),
            "a list in a file begins with its version, as in: version = 1");
  EXPECT_EQ(refusal("version = 2\n\na = h\n", ListForm::kFile).substr(0, 26), "line 3: 'h' of node 'a' is");
  EXPECT_EQ(refusal("version = x\n", ListForm::kFile).substr(0, 16), "line 1: version:");
  EXPECT_EQ(refusal("version = 2\n- = h:1", ListForm::kFile), "line 2: '-' cannot be the name of a node");
  EXPECT_EQ(refusal("version = 2\na = h:1\nb", ListForm::kFile), "line 3: 'b': expected NAME=HOST:PORT");
  EXPECT_EQ(refusal(std::string_view("\0\0\n", 3), ListForm::kFile),
            "line 1: '\\x00\\x00': expected NAME=HOST:PORT");
}

// Of what another process says, in which order and with which bytes it likes.
TEST(MemberList, that_was_not_parsed_is_checked_the_same_way) {
  const MemberList sound = parsed("a=h:1,b=h:2");
  EXPECT_TRUE(check(sound));
  const auto trouble = [&](const auto& spoil) {
    MemberList list = sound;
    spoil(list);
    const auto checked = check(list);
    return checked ? std::string("sound") : checked.error().what;
  };
  EXPECT_THAT(trouble([](MemberList& list) { list.version = 0; }), HasSubstr("from 1 on"));
  EXPECT_THAT(trouble([](MemberList& list) { list.members.clear(); }), HasSubstr("no node"));
  EXPECT_THAT(trouble([](MemberList& list) { std::swap(list.members[0], list.members[1]); }),
              HasSubstr("not in the order"));
  EXPECT_THAT(trouble([](MemberList& list) { list.members[1] = list.members[0]; }), HasSubstr("two nodes"));
  EXPECT_THAT(trouble([](MemberList& list) {
                list.members[1].host = "h";
                list.members[1].port = 1;
              }),
              HasSubstr("same address"));
  EXPECT_THAT(trouble([](MemberList& list) { list.members[0].host = "x\n"; }), HasSubstr("no address"));
  EXPECT_THAT(trouble([](MemberList& list) { list.members[0].port = 0; }), HasSubstr("no address"));
  EXPECT_THAT(trouble([](MemberList& list) { list.members[0].name = "\x1b"; }), HasSubstr("cannot be"));
  EXPECT_THAT(trouble([](MemberList& list) { list.members.resize(kMembersMax + 1); }),
              HasSubstr("at most 255"));
}

TEST(MemberList, names_are_put_into_words) {
  EXPECT_EQ(names_text(parsed("a=h:1")), "a");
  EXPECT_EQ(names_text(parsed("a=h:1,b=h:2")), "a and b");
  EXPECT_EQ(names_text(parsed("a=h:1,b=h:2,c=h:3")), "a, b and c");
  std::string text;
  for (int i = 10; i < 30; ++i) text += fmt::format("n{}=h:{},", i, i);
  EXPECT_EQ(names_text(parsed(text)), "n10, n11, n12, n13, n14, n15, n16, n17, n18, n19 and so on, 20 nodes");
}

}  // namespace
}  // namespace refract::cluster
