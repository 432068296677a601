// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/records/csv_text.h"
#include "apps/records/record_testing.h"

namespace refract::records {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::read_text;
using ::testing::SizeIs;
using testing::Story;

ReadOptions csv(std::string key_column = {}, Choice header = Choice::kAuto) {
  ReadOptions options;
  options.format = Format::kCsv;
  options.key_column = std::move(key_column);
  options.header = header;
  return options;
}

ReadOptions tsv(Choice escapes = Choice::kAuto) {
  ReadOptions options;
  options.format = Format::kTsv;
  options.escapes = escapes;
  return options;
}

TEST(CsvReader, of_two_columns_the_first_is_the_key) {
  const Story story = read_text("a,1\nb,\nc,3", csv());
  EXPECT_THAT(story.records, ElementsAre(Pair("a", "1"), Pair("b", ""), Pair("c", "3")));
  EXPECT_THAT(story.bads, IsEmpty());
  EXPECT_THAT(story.lines, ElementsAre(1, 2, 3));
}

TEST(CsvReader, quotes_hold_commas_line_breaks_and_doubled_quotes) {
  const Story story = read_text("\"a,b\",\"x\r\ny\"\"z\"\"\"\r\n\"c\",d\r\n", csv());
  EXPECT_THAT(story.records, ElementsAre(Pair("a,b", "x\r\ny\"z\""), Pair("c", "d")));
  EXPECT_THAT(story.lines, ElementsAre(1, 3));
}

TEST(CsvReader, a_quote_inside_an_unquoted_field_is_an_ordinary_byte) {
  EXPECT_THAT(read_text("a,5\" pipe\nb,\"\"\n", csv()).records,
              ElementsAre(Pair("a", "5\" pipe"), Pair("b", "")));
}

TEST(CsvReader, what_dump_writes_as_header_is_taken_for_one) {
  EXPECT_THAT(read_text("key,value\nkey,value\n", csv()).records, ElementsAre(Pair("key", "value")));
  EXPECT_THAT(read_text("\xef\xbb\xbfkey,value\r\na,1\r\n", csv()).records, ElementsAre(Pair("a", "1")));
}

TEST(CsvReader, a_header_is_not_guessed_from_its_looks) {
  EXPECT_THAT(read_text("id,name\n1,Ada\n", csv()).records,
              ElementsAre(Pair("id", "name"), Pair("1", "Ada")));
  EXPECT_THAT(read_text("key,value\n", csv("", Choice::kNo)).records, ElementsAre(Pair("key", "value")));
}

TEST(CsvReader, a_named_key_column_makes_the_other_columns_a_json_object) {
  const Story story = read_text("name,id,note\nAda,7,\"say \"\"hi\"\"\"\nGrace,8,\xc3\xa4\n", csv("id"));
  EXPECT_THAT(story.records,
              ElementsAre(Pair("7", R"({"name":"Ada","id":"7","note":"say \"hi\""})"),
                          Pair("8", "{\"name\":\"Grace\",\"id\":\"8\",\"note\":\"\xc3\xa4\"}")));
}

TEST(CsvReader, the_column_called_key_is_the_key_unless_another_is_chosen) {
  EXPECT_THAT(read_text("value,key\n1,a\n", csv("", Choice::kYes)).records, ElementsAre(Pair("a", "1")));
  EXPECT_THAT(read_text("value,key\n1,a\n", csv("1", Choice::kYes)).records, ElementsAre(Pair("1", "a")));
}

TEST(CsvReader, repeated_and_empty_header_names_are_made_distinct) {
  EXPECT_THAT(read_text("id,,id\n1,2,3\n", csv("id")).records,
              ElementsAre(Pair("1", R"({"id":"1","column_2":"2","id_3":"3"})")));
}

TEST(CsvReader, without_a_header_the_other_columns_stay_as_they_stand) {
  EXPECT_THAT(read_text("a,\"b,c\",d\n", csv()).records, ElementsAre(Pair("a", "\"b,c\",d")));
  EXPECT_THAT(read_text("a,\"b,c\",d\n", csv("2")).records, ElementsAre(Pair("b,c", "a,d")));
  EXPECT_THAT(read_text("a,b,c\n", csv("3")).records, ElementsAre(Pair("c", "a,b")));
  EXPECT_THAT(read_text("a\n", csv()).records, ElementsAre(Pair("a", "")));
}

TEST(CsvReader, a_bad_record_is_told_with_its_line_and_reading_goes_on) {
  const Story story = read_text("a,1\nb\n,3\n\n\"d\"x,4\ne,5\n", csv());
  EXPECT_THAT(story.records, ElementsAre(Pair("a", "1"), Pair("e", "5")));
  EXPECT_THAT(
      story.bads,
      ElementsAre("memory:2: the record has 1 columns (expected 2, as the first record has)",
                  "memory:3: the key is empty (expected 1 to 65535 bytes)",
                  "memory:5: there is text behind the closing quote of column 1 (expected a comma or the end "
                  "of the line; a quote inside quotes is doubled)"));
}

TEST(CsvReader, a_quote_that_is_never_closed_costs_its_line_only) {
  const Story story = read_text("a,1\nb,\"2\nc,3\nd,4\n", csv());
  EXPECT_THAT(story.records, ElementsAre(Pair("a", "1"), Pair("c", "3"), Pair("d", "4")));
  EXPECT_THAT(story.lines, ElementsAre(1, 3, 4));
  EXPECT_THAT(
      story.bads,
      ElementsAre("memory:2: a quote that opens in this line is never closed (expected a closing quote)"));
}

TEST(CsvReader, a_missing_key_column_is_told_before_anything_is_read) {
  const auto reader = read_bytes("id,name\n1,Ada\n", csv("idd"));
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().to_string(),
            "memory has no column 'idd'\n  choose with --key-column one of: id, name");
  EXPECT_EQ(read_bytes("a,b\n", csv("3", Choice::kYes)).error().code, Code::kInvalidArgument);
  EXPECT_EQ(read_bytes("a,b\n", csv("id", Choice::kNo)).error().code, Code::kInvalidArgument);
}

TEST(CsvReader, a_numbered_key_column_that_a_record_lacks_is_a_bad_record) {
  EXPECT_THAT(read_text("a,b\n", csv("3")).bads,
              ElementsAre("memory:1: the record has 2 columns (expected the key in column 3)"));
}

TEST(CsvReader, bytes_that_no_json_object_can_hold_are_a_bad_record) {
  const Story story = read_text("id,a,b\n1,\xff,x\n2,y,z\n", csv("id"));
  EXPECT_THAT(story.bads, ElementsAre(HasSubstr("memory:2: column 'a' is not UTF-8")));
  EXPECT_THAT(story.records, SizeIs(1));
}

TEST(CsvReader, keys_and_values_beyond_the_limits_are_bad_records) {
  ReadOptions options = csv();
  options.limits = {.key_bytes_max = 3, .value_bytes_max = 5};
  const Story story = read_text("abc,12345\nabcd,1\nabc,123456\nx,y\n", options);
  EXPECT_THAT(story.records, ElementsAre(Pair("abc", "12345"), Pair("x", "y")));
  EXPECT_THAT(story.bads, ElementsAre("memory:2: the key has 4 bytes (expected 1 to 3)",
                                      "memory:3: the value has 6 bytes (expected at most 5)"));
}

// The key of 65,535 bytes is the longest the store takes, and one byte more is none.
TEST(CsvReader, the_longest_key_is_a_record_and_the_next_longer_is_not) {
  const std::string longest(65'535, 'k');
  const Story story = read_text(longest + ",1\n" + longest + "k,2\n", csv());
  EXPECT_THAT(story.records, ElementsAre(Pair(longest, "1")));
  EXPECT_THAT(story.bads, SizeIs(1));
}

TEST(CsvReader, too_long_a_record_is_skipped_with_all_its_lines) {
  ReadOptions options = csv();
  options.limits = {.key_bytes_max = 3, .value_bytes_max = 5};
  const std::string text =
      "a,1\nb,\"" + std::string(5'000, 'x') + "\n\"\"" + std::string(5'000, '\n') + "\"\nc,3\n";
  for (const size_t chunk_bytes : {size_t{1}, size_t{7}, size_t{1'000}, SIZE_MAX}) {
    const Story story = read_text(text, options, chunk_bytes);
    EXPECT_THAT(story.records, ElementsAre(Pair("a", "1"), Pair("c", "3")));
    EXPECT_THAT(story.lines, ElementsAre(1, 5'004));
    EXPECT_THAT(story.bads,
                ElementsAre("memory:2: the record is too long (expected at most 1040 bytes of text)"));
  }
}

TEST(CsvReader, more_columns_than_anyone_needs_are_a_bad_record) {
  const Story story = read_text(std::string(kColumnsMax, ',') + "\na,b\n", csv());
  EXPECT_THAT(story.bads,
              ElementsAre("memory:1: the record has too many columns (expected at most 4096 columns)"));
  EXPECT_THAT(story.records, SizeIs(1));
}

TEST(CsvReader, an_empty_file_has_no_records) {
  for (const std::string_view text : {"", "\n", "\r\n\n", "\xef\xbb\xbf", "key,value", "key,value\n"}) {
    const Story story = read_text(text, csv());
    EXPECT_THAT(story.records, IsEmpty());
    EXPECT_THAT(story.bads, IsEmpty());
  }
}

TEST(TsvReader, a_backslash_of_a_foreign_file_is_a_backslash) {
  EXPECT_THAT(read_text("a\tC:\\temp\\new\r\n", tsv()).records, ElementsAre(Pair("a", "C:\\temp\\new")));
}

TEST(TsvReader, escapes_are_undone_where_dump_wrote_them_or_one_says_so) {
  const std::string text = "key\tvalue\na\\tb\tx\\n\\r\\\\y\n";
  EXPECT_THAT(read_text(std::string(kTsvMark) + "\n" + text, tsv()).records,
              ElementsAre(Pair("a\tb", "x\n\r\\y")));
  EXPECT_THAT(read_text(text, tsv(Choice::kYes)).records, ElementsAre(Pair("a\tb", "x\n\r\\y")));
  EXPECT_THAT(read_text(text, tsv()).records, ElementsAre(Pair("a\\tb", "x\\n\\r\\\\y")));
}

TEST(TsvReader, a_backslash_that_begins_no_escape_is_a_bad_record) {
  const Story story = read_text("a\tb\\x\nc\td\\\ne\tf\n", tsv(Choice::kYes));
  EXPECT_THAT(story.records, ElementsAre(Pair("e", "f")));
  EXPECT_THAT(story.bads, ElementsAre(HasSubstr("memory:1: column 2 has a backslash"),
                                      HasSubstr("memory:2: column 2 has a backslash")));
}

TEST(TsvReader, quotes_mean_nothing) {
  EXPECT_THAT(read_text("\"a\tb\"\n", tsv()).records, ElementsAre(Pair("\"a", "b\"")));
}

TEST(TsvReader, a_header_makes_objects) {
  ReadOptions options = tsv();
  options.key_column = "id";
  EXPECT_THAT(read_text("id\tx\ty\n1\t2\t3\n", options).records,
              ElementsAre(Pair("1", R"({"id":"1","x":"2","y":"3"})")));
}

TEST(TsvReader, a_bad_escape_in_a_headers_later_column_names_its_number) {
  ReadOptions options = tsv(Choice::kYes);
  options.header = Choice::kYes;
  const Story story = read_text("key\tva\\qlue\na\t1\n", options);
  EXPECT_THAT(story.records, IsEmpty());
  EXPECT_THAT(story.bads, ElementsAre(HasSubstr("column 2")));
}

TEST(TsvReader, too_long_a_line_is_skipped) {
  ReadOptions options = tsv();
  options.limits = {.key_bytes_max = 3, .value_bytes_max = 5};
  for (const size_t chunk_bytes : {size_t{1}, size_t{1'000}, SIZE_MAX}) {
    const Story story = read_text("a\t1\nb\t" + std::string(9'000, 'x') + "\nc\t3\n", options, chunk_bytes);
    EXPECT_THAT(story.records, ElementsAre(Pair("a", "1"), Pair("c", "3")));
    EXPECT_THAT(story.bads, ElementsAre(HasSubstr("memory:2: the record is too long")));
  }
}

// How bytes arrive, by pieces of any size, changes nothing, and no bytes crash or hang a reader.
TEST(TableReader, pieces_of_any_size_tell_the_same_story) {
  Prng prng(17);
  for (int round = 0; round < 3'000; ++round) {
    const std::string text = testing::random_bytes(prng, 120);
    ReadOptions options = round % 2 == 0 ? csv() : tsv(round % 4 == 1 ? Choice::kYes : Choice::kAuto);
    if (round % 3 == 0) options.limits = {.key_bytes_max = 4, .value_bytes_max = 8};
    const Story whole = read_text(text, options);
    const Story pieces = read_text(text, options, 1 + prng.below(9));
    ASSERT_EQ(whole.records, pieces.records) << text;
    ASSERT_EQ(whole.lines, pieces.lines) << text;
    ASSERT_EQ(whole.bads, pieces.bads) << text;
  }
}

}  // namespace
}  // namespace refract::records
