// SPDX-License-Identifier: Apache-2.0
// The worked example of docs/formats/cluster.md, byte for byte; pages that make no sense.
#include "refract/cluster/members_wire.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "refract/base/object_bytes.h"
#include "refract/base/testing/golden.h"
#include "refract/base/testing/needed.h"

namespace refract::cluster::wire {
namespace {

using test::needed;

constexpr size_t kRoom = 4096;

Members members_of(std::string_view text, const std::string& self) {
  return needed(Members::create(needed(parse_member_list(text, ListForm::kSetting)), self));
}

std::vector<std::byte> shown(std::string_view heading) {
  const auto lines = golden::lines_of(REFRACT_SOURCE_DIR "/docs/formats/cluster.md", heading);
  EXPECT_FALSE(lines.empty()) << heading;
  if (lines.empty()) return {};
  return golden::image_of(lines, lines.back().offset + lines.back().bytes.size());
}

TEST(MembersWire, lies_as_the_format_page_shows) {
  const MembersRequest request{.from = 0, .reserved = 0};
  const auto bytes = object_bytes(request);
  EXPECT_EQ(shown("## A call in hex"), std::vector(bytes.begin(), bytes.end()));
  const Members members = members_of("version=7,a=10.0.0.1:7400,b=[fd00::2]:7400", "b");
  EXPECT_EQ(shown("## Its answer in hex"), encode_page(members, 0, kRoom));
}

TEST(MembersWire, pages_put_together_are_the_list) {
  std::string text = "version=9";
  for (int i = 0; i < 200; ++i) text += fmt::format(",node-{}=host-{}.example.org:{}", i, i, 1000 + i);
  const Members members = members_of(text, "node-77");
  for (const size_t room : {kPageBytesMin, size_t{512}, kRoom, kPageBytesMax}) {
    std::vector<Member> all;
    while (all.size() < members.list().members.size()) {
      const auto bytes = encode_page(members, static_cast<uint32_t>(all.size()), room);
      ASSERT_LE(bytes.size(), room);
      const auto page = decode_page(bytes);
      ASSERT_TRUE(page);
      EXPECT_EQ(page->head.version, 9U);
      EXPECT_EQ(page->head.count, 200U);
      EXPECT_EQ(page->head.self, members.self());
      EXPECT_EQ(page->head.from, all.size());
      all.insert(all.end(), page->members.begin(), page->members.end());
    }
    EXPECT_EQ(all, members.list().members) << room;
  }
}

TEST(MembersWire, the_longest_members_fit_the_smallest_page) {
  const std::string text =
      fmt::format("{}={}:65535,b=h:1", std::string(kNameBytesMax, 'a'), std::string(kHostBytesMax, 'h'));
  const auto page = decode_page(encode_page(members_of(text, "b"), 0, kPageBytesMin));
  ASSERT_TRUE(page);
  EXPECT_EQ(page->head.here, 1U);
}

TEST(MembersWire, every_cut_and_every_surplus_is_refused) {
  const std::vector<std::byte> whole = encode_page(members_of("a=h:1,bb=host:2", "a"), 0, kRoom);
  ASSERT_TRUE(decode_page(whole));
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_FALSE(decode_page(std::span(whole).first(bytes))) << bytes;
  }
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_page(longer));
}

TEST(MembersWire, heads_that_contradict_themselves_are_refused) {
  const Members members = members_of("a=h:1,b=h:2,c=h:3", "a");
  const auto trouble = [&](const auto& spoil) {
    std::vector<std::byte> bytes = encode_page(members, 1, kRoom);
    MembersReply head;
    std::memcpy(&head, bytes.data(), sizeof(head));
    spoil(head);
    std::memcpy(bytes.data(), &head, sizeof(head));
    return !decode_page(bytes);
  };
  EXPECT_FALSE(trouble([](MembersReply&) {}));
  EXPECT_TRUE(trouble([](MembersReply& head) { head.version = 0; }));
  EXPECT_TRUE(trouble([](MembersReply& head) { head.count = 0; }));
  EXPECT_TRUE(trouble([](MembersReply& head) { head.count = 2; }));
  EXPECT_TRUE(trouble([](MembersReply& head) { head.count = kMembersMax + 1; }));
  EXPECT_TRUE(trouble([](MembersReply& head) { head.self = 3; }));
  EXPECT_TRUE(trouble([](MembersReply& head) { head.from = 2; }));
  EXPECT_TRUE(trouble([](MembersReply& head) { head.from = UINT32_MAX; }));
  EXPECT_TRUE(trouble([](MembersReply& head) { head.here = 0; }));
  EXPECT_TRUE(trouble([](MembersReply& head) { head.here = 1; }));
  EXPECT_TRUE(trouble([](MembersReply& head) { head.here = UINT32_MAX; }));
}

}  // namespace
}  // namespace refract::cluster::wire
