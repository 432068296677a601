// SPDX-License-Identifier: Apache-2.0
// Rows and states, byte for byte as docs/formats/directory-in-redis.md shows them; and what is none is
// refused.
#include "refract/object/redis/home_rows.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "refract/base/testing/golden.h"
#include "refract/object/layout/object_birth.h"
#include "refract/object/redis/redis_home.h"

namespace refract::object::home_rows_test {
namespace {

constexpr ObjectParts kParts{.body_bytes = 3, .metadata_bytes = 2, .id_bytes = 5};
constexpr std::array<uint64_t, 2> kMemory = {0x1122'3344'5566'7788, 0x99aa'bbcc'ddee'ff00};
constexpr std::array<uint64_t, 2> kOther = {1, 2};

uint64_t apple() {
  return birth_of(std::as_bytes(std::span(std::string_view("apple"))), 0x1122'3344'5566'7788);
}

void expect_page_shows(std::string_view heading, const std::string& bytes) {
  const auto lines = golden::lines_of(REFRACT_SOURCE_DIR "/docs/formats/directory-in-redis.md", heading);
  ASSERT_FALSE(lines.empty()) << heading;
  const golden::Line& last = lines.back();
  const auto all = std::as_bytes(std::span(bytes));
  EXPECT_EQ(golden::image_of(lines, last.offset + last.bytes.size()), std::vector(all.begin(), all.end()))
      << heading;
}

HomeRows rows_of_two() {
  HomeRows rows;
  rows.begin(2, {.run = "0123456789", .list_version = 7, .list_digest = 0xf79b'387b'a317'1d87}, 42);
  rows.open_stream(0, kMemory);
  rows.table.end_report(0);
  return rows;
}

TEST(HomeRows, the_page_shows_a_state) {
  expect_page_shows("### A state of two members in hex", rows_of_two().next_state());
}

TEST(HomeRows, the_page_shows_a_row) {
  HomeRows rows = rows_of_two();
  rows.open_stream(1, kOther);
  ASSERT_EQ(rows.table.holds(0, "apple", apple(), kParts, CopiesWord::of(3, 2)), Code::kOk);
  rows.table.comes(1, "apple", apple(), kParts);
  rows.table.bury("apple", 7);
  ASSERT_FALSE(rows.table.acknowledge(0, "apple", 7));
  expect_page_shows("### A row in hex: a has it, b is pulling it, another birth was deleted",
                    rows.row("apple"));
}

TEST(HomeRows, the_page_shows_a_message) {
  expect_page_shows("### A message in hex: drop",
                    news_of({.birth = apple(), .kind = wire::NewsKind::kDrop, .member = 2}, "apple"));
}

TEST(HomeRows, what_is_read_is_written_again_and_what_is_cut_or_longer_is_refused) {
  HomeRows rows = rows_of_two();
  const std::string state = rows.next_state();
  ASSERT_EQ(rows.table.claims(0, "claimed", 5, true), Code::kOk);
  ASSERT_EQ(rows.table.holds(0, "held", 6, kParts), Code::kOk);
  rows.table.bury("held", 7);
  for (size_t bytes = 0; bytes < state.size(); ++bytes) {
    HomeRows cut;
    EXPECT_FALSE(cut.take_state(state.substr(0, bytes), 0)) << bytes;
  }
  for (const std::string id : {"claimed", "held"}) {
    const std::string row = rows.row(id);
    HomeRows again;
    ASSERT_TRUE(again.take_state(state, 0));
    ASSERT_TRUE(again.take_row(id, row));
    EXPECT_EQ(again.row(id), row);
    for (size_t bytes = 1; bytes < row.size() + 2; ++bytes) {
      if (bytes == row.size()) continue;
      HomeRows cut;
      ASSERT_TRUE(cut.take_state(state, 0));
      EXPECT_FALSE(cut.take_row(id, (row + "x").substr(0, bytes))) << bytes;
    }
  }
  EXPECT_EQ(rows.row("neither"), "");
}

// What a member said, or acknowledged, before it lost its memory.
TEST(HomeRows, words_of_an_earlier_memory_are_void) {
  HomeRows rows = rows_of_two();
  ASSERT_EQ(rows.table.holds(0, "held", 6, kParts), Code::kOk);
  ASSERT_EQ(rows.table.claims(0, "claimed", 5, true), Code::kOk);
  rows.table.bury("buried", 7);
  ASSERT_FALSE(rows.table.acknowledge(0, "buried", 7));
  const std::vector<std::string> ids = {"held", "claimed", "buried"};
  for (const bool is_another : {false, true}) {
    HomeRows next;
    ASSERT_TRUE(next.take_state(rows.next_state(), 0));
    next.open_stream(0, is_another ? kOther : kMemory);
    const std::string state = next.next_state();
    HomeRows read;
    ASSERT_TRUE(read.take_state(state, 0));
    for (const std::string& id : ids) ASSERT_TRUE(read.take_row(id, rows.row(id)));
    EXPECT_EQ(read.table.look_up("held").birth, is_another ? 0U : 6U);
    EXPECT_EQ(read.table.count_claims(), is_another ? 0U : 1U);
    EXPECT_EQ(read.table.missing("buried", 7)[0], is_another);
    EXPECT_EQ(read.lingering_delta(), is_another ? 2 : 0) << "it may be somewhere all the same";
  }
}

// A count, and what may be let go, follow from rows as they do from what members say themselves.
TEST(HomeRows, bound_copies_are_counted_and_released_by_what_is_read) {
  HomeRows rows = rows_of_two();
  rows.open_stream(1, kOther);
  rows.table.end_report(1);
  const CopiesWord word = CopiesWord::of(2, 1);
  ASSERT_EQ(rows.table.holds(0, "held", 6, kParts, word), Code::kOk);
  ASSERT_EQ(rows.table.holds(1, "held", 6, kParts, CopiesWord::of(1, 1)), Code::kOk);
  HomeRows read;
  ASSERT_TRUE(read.take_state(rows.next_state(), 0));
  ASSERT_TRUE(read.take_row("held", rows.row("held")));
  const HomeTable::Bound bound = read.table.bound("held", 6);
  EXPECT_EQ(bound.wish, word);
  EXPECT_EQ(bound.counted.to_ulong(), 1U) << "the other has an older word";
  EXPECT_EQ(bound.behind.to_ulong(), 2U);
  EXPECT_EQ(read.table.release(0, "held", 6), Code::kUnavailable);
  EXPECT_EQ(read.table.release(1, "held", 6), Code::kOk);
  HomeRows later;
  ASSERT_TRUE(later.take_state(rows.next_state(), 0));
  ASSERT_TRUE(later.take_row("held", read.row("held")));
  EXPECT_EQ(later.table.bound("held", 6).loose.to_ulong(), 2U);
  // No number of copies is that large.
  std::string row = rows.row("held");
  row[sizeof(wire::RowHead) + offsetof(wire::RowBirth, wish)] = kCopiesMax + 1;
  HomeRows refused;
  ASSERT_TRUE(refused.take_state(rows.next_state(), 0));
  EXPECT_FALSE(refused.take_row("held", row));
}

// A birth without a word is of no account once all are known, and goes with the next change of its row.
TEST(HomeRows, silent_births_go_when_all_are_known) {
  HomeRows rows = rows_of_two();
  ASSERT_EQ(rows.table.holds(0, "held", 6, kParts), Code::kOk);
  rows.table.gone(0, "held", 6);
  EXPECT_EQ(rows.lingering_delta(), 1);
  const std::string silent = rows.row("held");
  ASSERT_NE(silent, "");
  HomeRows later;
  ASSERT_TRUE(later.take_state(rows.next_state(), 1));
  later.open_stream(1, kOther);
  later.table.end_report(1);
  HomeRows known;
  ASSERT_TRUE(known.take_state(later.next_state(), 1));
  ASSERT_TRUE(known.table.is_complete());
  ASSERT_TRUE(known.take_row("held", silent));
  EXPECT_EQ(known.row("held"), "");
  EXPECT_EQ(known.table.claims(1, "held", 8, false), Code::kOk);
}

}  // namespace
}  // namespace refract::object::home_rows_test
