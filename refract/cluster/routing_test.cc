// SPDX-License-Identifier: Apache-2.0
// Slots are those of Redis Cluster, and the order of nodes is for ever; a new node takes its share and
// nothing else moves.
#include "refract/cluster/routing.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace refract::cluster {
namespace {

using testing::ElementsAre;

MemberList list_of(const std::vector<std::string>& names) {
  MemberList list{.version = 1, .members = {}};
  for (const std::string& name : names) list.members.push_back({.name = name, .host = name, .port = 1});
  std::ranges::sort(list.members, {}, &Member::name);
  return list;
}

std::vector<std::string> numbered(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back("node-" + std::to_string(i));
  return names;
}

// The names of a slot's first `n` nodes.
std::vector<std::string> first_of(const MemberList& list, const Routing& routing, uint16_t slot, size_t n) {
  std::vector<uint8_t> nodes(n);
  nodes.resize(routing.nodes_of(slot, nodes));
  std::vector<std::string> names;
  names.reserve(nodes.size());
  for (const uint8_t node : nodes) names.push_back(list.members[node].name);
  return names;
}

uint8_t home_of(const Routing& routing, uint32_t slot) {
  uint8_t home = 0;
  EXPECT_EQ(routing.nodes_of(static_cast<uint16_t>(slot), {&home, 1}), 1U);
  return home;
}

// The check value of CRC-16/XMODEM, and slots as CLUSTER KEYSLOT of Redis says them.
TEST(Slots, are_those_of_redis_cluster) {
  EXPECT_EQ(crc16(std::as_bytes(std::span("123456789", 9))), 0x31C3);
  EXPECT_EQ(slot_of("123456789"), 0x31C3 % kSlots);
  EXPECT_EQ(slot_of("foo"), 12182);
  EXPECT_EQ(slot_of("bar"), 5061);
  EXPECT_EQ(slot_of("hello"), 866);
  EXPECT_EQ(slot_of(""), 0);
}

TEST(Slots, are_of_the_part_in_braces_where_there_is_one) {
  EXPECT_EQ(slot_of("{user1000}.following"), slot_of("user1000"));
  EXPECT_EQ(slot_of("{user1000}.followers"), slot_of("user1000"));
  EXPECT_EQ(slot_of("a{foo}"), 12182);
  EXPECT_EQ(slot_of("foo{bar}{zap}"), slot_of("bar"));
  EXPECT_EQ(slot_of("foo{{bar}}zap"), slot_of("{bar"));
  // None: the first { has nothing before its }, or no } at all.
  const auto whole = [](std::string_view key) { return crc16(std::as_bytes(std::span(key))) % kSlots; };
  for (const char* key : {"foo{}{bar}", "{}", "foo{bar", "foo}bar{", "}{", "{"}) {
    EXPECT_EQ(slot_of(key), whole(key)) << key;
  }
  EXPECT_EQ(slot_of(std::string_view("{\0}x", 4)), whole(std::string_view("\0", 1)));
}

// Every process computes the same, of every release: these figures never change.
TEST(Rendezvous, order_is_pinned) {
  const MemberList list = list_of({"a", "b", "c", "d", "e", "f"});
  const Routing routing(list);
  EXPECT_THAT(first_of(list, routing, 0, 6), ElementsAre("a", "e", "c", "b", "d", "f"));
  EXPECT_THAT(first_of(list, routing, 866, 3), ElementsAre("a", "e", "c"));
  EXPECT_THAT(first_of(list, routing, 16383, 3), ElementsAre("f", "c", "d"));
}

TEST(Rendezvous, is_what_the_format_page_says) {
  std::ifstream file(REFRACT_SOURCE_DIR "/docs/formats/cluster.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  const MemberList list = list_of({"a", "b", "c", "d", "e", "f"});
  const Routing routing(list);
  for (const char* key : {"hello", "bar", "foo"}) {
    const uint16_t slot = slot_of(key);
    const auto nodes = first_of(list, routing, slot, 3);
    const std::string row = fmt::format("| {} | {} | {}, {}, {} |", key, slot, nodes[0], nodes[1], nodes[2]);
    EXPECT_THAT(page, testing::HasSubstr(row));
  }
}

TEST(Rendezvous, is_the_same_whatever_the_order_in_the_text_and_the_addresses) {
  const auto one = parse_member_list("a=h:1,b=h:2,c=h:3,d=h:4,e=h:5", ListForm::kSetting);
  const auto other = parse_member_list("version=9,e=x:1,c=x:2,d=x:3,a=x:4,b=x:5", ListForm::kSetting);
  ASSERT_TRUE(one && other);
  const Routing routing(*one);
  const Routing again(*other);
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    const auto at = static_cast<uint16_t>(slot);
    ASSERT_EQ(first_of(*one, routing, at, 5), first_of(*other, again, at, 5)) << slot;
  }
}

TEST(Rendezvous, further_nodes_continue_what_the_table_has) {
  const MemberList list = list_of(numbered(9));
  const Routing routing(list);
  for (uint32_t slot = 0; slot < kSlots; slot += 7) {
    const auto all = first_of(list, routing, static_cast<uint16_t>(slot), 20);
    ASSERT_EQ(all.size(), 9U);
    for (size_t n = 0; n <= 9; ++n) {
      const auto some = first_of(list, routing, static_cast<uint16_t>(slot), n);
      ASSERT_TRUE(std::ranges::equal(some, std::span(all).first(n))) << slot << " " << n;
    }
    auto sorted = all;
    std::ranges::sort(sorted);
    ASSERT_EQ(std::ranges::adjacent_find(sorted), sorted.end()) << "a node stands twice";
  }
}

TEST(Rendezvous, of_fewer_nodes_than_asked_for_gives_those_there_are) {
  const MemberList list = list_of({"only"});
  const Routing routing(list);
  EXPECT_THAT(first_of(list, routing, 5, 3), ElementsAre("only"));
}

// Whatever the names look like: 5 sigma of a fair draw.
TEST(Rendezvous, gives_each_node_its_share_of_the_slots) {
  const std::vector<std::vector<std::string>> lists = {
      {"a", "b"},
      {"a", "b", "c"},
      {"host-1.example.org", "host-2.example.org", "host-3.example.org"},
      numbered(16),
      numbered(kMembersMax)};
  for (const auto& names : lists) {
    const MemberList list = list_of(names);
    const Routing routing(list);
    std::vector<double> slots(names.size());
    for (uint32_t slot = 0; slot < kSlots; ++slot) ++slots[home_of(routing, slot)];
    const double share = 1.0 / static_cast<double>(names.size());
    const double expected = kSlots * share;
    const double bound = 5 * std::sqrt(expected * (1 - share));
    for (const double have : slots) EXPECT_NEAR(have, expected, bound) << names.front();
  }
}

// Of n nodes the n-th took about 1/n of the slots, from each other its share; no slot moved between others.
TEST(Rendezvous, a_node_that_joins_takes_its_share_and_nothing_else_moves) {
  for (const size_t count : {2U, 4U, 11U}) {
    const MemberList before = list_of(numbered(count - 1));
    const MemberList after = list_of(numbered(count));
    const std::string joined = numbered(count).back();
    const Routing old(before);
    const Routing now(after);
    double moved = 0;
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      const auto at = static_cast<uint16_t>(slot);
      auto order = first_of(after, now, at, count);
      if (order.front() == joined) ++moved;
      std::erase(order, joined);
      ASSERT_EQ(order, first_of(before, old, at, count - 1)) << slot;
    }
    const double share = 1.0 / static_cast<double>(count);
    EXPECT_NEAR(moved, kSlots * share, 5 * std::sqrt(kSlots * share * (1 - share))) << count;
  }
}

}  // namespace
}  // namespace refract::cluster
