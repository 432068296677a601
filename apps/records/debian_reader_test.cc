// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/records/debian_text.h"
#include "apps/records/record_testing.h"

namespace refract::records {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::read_text;
using testing::Story;

constexpr std::string_view kAdduser =
    "Package: adduser\nStatus: install ok installed\nArchitecture: all\nMulti-Arch: foreign\nDescription: "
    "add users\n"
    " This package includes commands.\n .\n  - and a list";
constexpr std::string_view kLibc = "Package: libc6\nArchitecture: amd64\nMulti-Arch: same\nVersion: 2.36-9";
constexpr std::string_view kLibcOther =
    "Package: libc6\nArchitecture: i386\nMulti-Arch: same\nVersion: 2.36-9";

ReadOptions debian() {
  ReadOptions options;
  options.format = Format::kDebian;
  return options;
}

std::string joined(std::initializer_list<std::string_view> stanzas) {
  std::string text;
  for (const std::string_view stanza : stanzas) text.append(stanza).append("\n\n");
  return text;
}

TEST(DebianReader, a_stanza_is_kept_as_it_is_under_the_name_that_dpkg_shows) {
  const Story story = read_text(joined({kAdduser, kLibc, kLibcOther}), debian());
  EXPECT_THAT(story.records, ElementsAre(Pair("adduser", kAdduser), Pair("libc6:amd64", kLibc),
                                         Pair("libc6:i386", kLibcOther)));
  EXPECT_THAT(story.lines, ElementsAre(1, 10, 15));
  EXPECT_THAT(story.bads, IsEmpty());
}

TEST(DebianReader, the_last_stanza_needs_neither_blank_line_nor_line_break) {
  for (const std::string_view end : {"", "\n", "\n\n", "\n \n\t\n\n"}) {
    const Story story = read_text(std::string(kLibc).append(end), debian());
    EXPECT_THAT(story.records, ElementsAre(Pair("libc6:amd64", kLibc)));
    EXPECT_THAT(story.bads, IsEmpty());
  }
}

TEST(DebianReader, field_names_may_be_written_in_any_case) {
  EXPECT_THAT(read_text("PACKAGE:a\nmulti-ARCH:\tsame \r\narchitecture: x\n", debian()).records,
              ElementsAre(Pair("a:x", ::testing::_)));
}

TEST(DebianReader, a_bad_stanza_is_told_with_the_line_that_is_bad) {
  const Story story = read_text(
      "Package: a\n\nVersion: 1\n\n\nPackage: b\nnonsense\n\n continued\n\nPackage: c\nPackage: "
      "d\n\nPackage: "
      "e\n",
      debian());
  EXPECT_THAT(story.records, ElementsAre(Pair("a", "Package: a"), Pair("e", "Package: e")));
  EXPECT_THAT(story.bads,
              ElementsAre("memory:3: the stanza names no package (expected 'Package: NAME')",
                          HasSubstr("memory:7: the line is no field"),
                          HasSubstr("memory:9: a continuation line stands before the first field"),
                          HasSubstr("memory:12: the stanza has the field 'package' twice")));
}

TEST(DebianReader, too_long_a_stanza_is_skipped_to_its_blank_line) {
  ReadOptions options = debian();
  options.limits = {.key_bytes_max = 3, .value_bytes_max = 20};
  const std::string text = "Package: a\n\nPackage: b\n x\n " + std::string(3'000, 'x') +
                           "\n y\n\nPackage: c\n\nPackage: " + std::string(20, 'x') + "\n\nPackage: dddd\n";
  for (const size_t chunk_bytes : {size_t{1}, size_t{3}, size_t{100}, SIZE_MAX}) {
    const Story story = read_text(text, options, chunk_bytes);
    EXPECT_THAT(story.records, ElementsAre(Pair("a", "Package: a"), Pair("c", "Package: c")));
    EXPECT_THAT(story.lines, ElementsAre(1, 8));
    EXPECT_THAT(story.bads, ElementsAre(HasSubstr("memory:3: the stanza is too long"),
                                        HasSubstr("memory:10: the stanza is too long"),
                                        HasSubstr("memory:12: the key has 4 bytes")));
  }
}

TEST(DebianReader, pieces_of_any_size_tell_the_same_story) {
  constexpr std::string_view kLongBlank = "\n                                       \n";
  constexpr std::string_view kParts[] = {"Package:",           " a",         "\n", "\n\n", " ", "\r\n",
                                         "Multi-Arch: same\n", "\n# note\n", ":",  "\t\n", "x", "\nB: c",
                                         "Package: b\n",       kLongBlank};
  Prng prng(23);
  for (int round = 0; round < 3'000; ++round) {
    std::string text;
    for (uint64_t part = prng.below(25); part > 0; --part) text.append(kParts[prng.below(std::size(kParts))]);
    ReadOptions options = debian();
    if (round % 2 == 0) options.limits = {.key_bytes_max = 4, .value_bytes_max = 30};
    const Story whole = read_text(text, options);
    const Story pieces = read_text(text, options, 1 + prng.below(9));
    ASSERT_EQ(whole.records, pieces.records) << text;
    ASSERT_EQ(whole.lines, pieces.lines) << text;
    ASSERT_EQ(whole.bads, pieces.bads) << text;
    ASSERT_EQ(testing::lost_by(whole.records, Format::kDebian), "") << text;
  }
}

TEST(DebianWriter, takes_only_what_would_be_read_back_under_the_same_key) {
  std::string text;
  const auto writer = write_to(text, Format::kDebian);
  EXPECT_TRUE(writer->write("adduser", kAdduser));
  EXPECT_EQ(writer->write("adduser2", kAdduser).error().code, Code::kInvalidArgument);
  EXPECT_EQ(writer->write("libc6", kLibc).error().code, Code::kInvalidArgument);
  EXPECT_EQ(writer->write("a", "Package: a\n").error().code, Code::kInvalidArgument);
  EXPECT_EQ(writer->write("a", "Package: a\n\nPackage: b").error().code, Code::kInvalidArgument);
  EXPECT_EQ(writer->write("a", "").error().code, Code::kInvalidArgument);
  EXPECT_EQ(text, joined({kAdduser}));
}

}  // namespace
}  // namespace refract::records
