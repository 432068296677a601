// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/records/json_text.h"
#include "apps/records/record_testing.h"

#include "refract/base/printable.h"

namespace refract::records {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::read_text;
using testing::Story;

ReadOptions jsonl(std::string key_field = {}) {
  ReadOptions options;
  options.format = Format::kJsonl;
  options.key_field = std::move(key_field);
  return options;
}

std::string only_complaint(std::string_view line, const ReadOptions& options = jsonl()) {
  const Story story = read_text(line, options);
  EXPECT_THAT(story.records, IsEmpty()) << line;
  EXPECT_EQ(story.bads.size(), 1U) << line;
  return story.bads.empty() ? std::string() : story.bads[0];
}

TEST(JsonlReader, members_come_in_any_order_and_with_any_spaces) {
  const Story story =
      read_text("{\"key\":\"a\",\"value\":\"1\"}\r\n\n  { \"value\" : \"2\" ,\t\"key\":\"b\" } \n", jsonl());
  EXPECT_THAT(story.records, ElementsAre(Pair("a", "1"), Pair("b", "2")));
  EXPECT_THAT(story.lines, ElementsAre(1, 3));
  EXPECT_THAT(story.bads, IsEmpty());
}

TEST(JsonlReader, escapes_are_undone) {
  EXPECT_THAT(
      read_text(R"({"k\u0065y":"\u00e4\ud83d\ude00","value":"\"\\\/\b\f\n\r\t\u0000"})", jsonl()).records,
      ElementsAre(Pair("\xc3\xa4\xf0\x9f\x98\x80", std::string("\"\\/\b\f\n\r\t\0", 9))));
}

TEST(JsonlReader, bytes_that_are_no_text_come_as_base64) {
  EXPECT_THAT(read_text(R"({"key_base64":"\/wA=","value_base64":""})", jsonl()).records,
              ElementsAre(Pair(std::string("\xff\0", 2), "")));
}

TEST(JsonlReader, a_value_that_is_no_string_keeps_its_text) {
  EXPECT_THAT(read_text(R"({"key":7,"value": {"b":1.0, "a":[1e400,{}]} })", jsonl()).records,
              ElementsAre(Pair("7", R"({"b":1.0, "a":[1e400,{}]})")));
}

TEST(JsonlReader, by_key_field_the_whole_object_is_the_value) {
  const Story story = read_text(" {\"n\":{\"id\":1},\"id\":\"x\\ty\"} \n{\"id\":12}\n", jsonl("id"));
  EXPECT_THAT(story.records,
              ElementsAre(Pair("x\ty", R"({"n":{"id":1},"id":"x\ty"})"), Pair("12", R"({"id":12})")));
}

TEST(JsonlReader, what_cannot_be_a_record_is_explained) {
  EXPECT_THAT(only_complaint("[1]"), HasSubstr("memory:1: this is no JSON object: expected '{' at byte 1"));
  EXPECT_THAT(only_complaint("{\"key\":\"a\"}"), HasSubstr("there is no value"));
  EXPECT_THAT(only_complaint("{\"value\":\"a\"}"), HasSubstr("there is no key"));
  EXPECT_THAT(only_complaint(R"({"key":"a","value":"b","ttl":3})"),
              HasSubstr("the member 'ttl' would be lost"));
  EXPECT_THAT(only_complaint(R"({"key":"a","key_base64":"YQ==","value":1})"),
              HasSubstr("there are two keys"));
  EXPECT_THAT(only_complaint(R"({"key":null,"value":1})"), HasSubstr("not a string and not a number"));
  EXPECT_THAT(only_complaint(R"({"key":"","value":1})"), HasSubstr("the key is empty"));
  EXPECT_THAT(only_complaint(R"({"key_base64":"YQ=","value":1})"), HasSubstr("'key_base64' is no base64"));
  EXPECT_THAT(only_complaint(R"({"key_base64":1,"value":1})"), HasSubstr("'key_base64' is no string"));
  EXPECT_THAT(only_complaint("{\"key\":\"\xff\",\"value\":1}"), HasSubstr("the line is not UTF-8"));
  EXPECT_THAT(only_complaint(R"({"a":1})", jsonl("id")), HasSubstr("there is no member 'id'"));
  EXPECT_THAT(only_complaint(R"({"id":1,"id":2})", jsonl("id")), HasSubstr("there are two members 'id'"));
  EXPECT_THAT(only_complaint(R"({"id":[]})", jsonl("id")),
              HasSubstr("'id' is not a string and not a number"));
}

TEST(JsonlReader, after_a_bad_line_the_next_one_is_read) {
  const Story story = read_text("{\n{\"key\":\"a\",\"value\":\"1\"}\n}\n", jsonl());
  EXPECT_THAT(story.records, ElementsAre(Pair("a", "1")));
  EXPECT_EQ(story.bads.size(), 2U);
}

TEST(JsonlReader, too_long_a_line_is_skipped) {
  ReadOptions options = jsonl();
  options.limits = {.key_bytes_max = 3, .value_bytes_max = 5};
  const std::string text =
      "{\"key\":\"a\",\"value\":\"" + std::string(9'000, 'x') + "\"}\n{\"key\":\"b\",\"value\":\"1\"}";
  for (const size_t chunk_bytes : {size_t{1}, size_t{1'000}, SIZE_MAX}) {
    const Story story = read_text(text, options, chunk_bytes);
    EXPECT_THAT(story.records, ElementsAre(Pair("b", "1")));
    EXPECT_THAT(story.bads, ElementsAre("memory:1: the line is too long (expected at most 1040 bytes)"));
  }
}

bool accepts(std::string_view text) {
  JsonObject object(text);
  JsonMember member;
  while (object.next(member)) {
  }
  return object.fault().empty();
}

TEST(JsonObject, accepts_what_the_standard_accepts_and_nothing_else) {
  for (const std::string_view good :
       {"{}", " { } ", R"({"":0})", R"({"a":-0.5e+10,"b":[true,false,null,[],{}]})",
        R"({"a":"\ud800\udc00"})", R"({"a":[{"b":[{"c":1}]}]})", R"({"a":1E5,"a":2})"}) {
    EXPECT_TRUE(accepts(good)) << good;
  }
  for (const std::string_view bad : {"",
                                     "{",
                                     "}",
                                     "[]",
                                     "{}x",
                                     "{,}",
                                     R"({"a"})",
                                     R"({"a":})",
                                     R"({"a":1,})",
                                     R"({"a":01})",
                                     R"({"a":+1})",
                                     R"({"a":1.})",
                                     R"({"a":.5})",
                                     R"({"a":1e})",
                                     R"({"a":-})",
                                     R"({"a":"\x"})",
                                     R"({"a":"\u12g4"})",
                                     R"({"a":"\ud800"})",
                                     R"({"a":"\udc00"})",
                                     R"({"a":"\ud800\u0041"})",
                                     "{\"a\":\"\n\"}",
                                     R"({"a":"b})",
                                     R"({"a":[1,]})",
                                     R"({"a":[1 2]})",
                                     R"({"a":{"b"}})",
                                     R"({"a":tru})",
                                     R"({a:1})",
                                     R"({"a":1 "b":2})",
                                     R"({"a":"\u00)"}) {
    EXPECT_FALSE(accepts(bad)) << bad;
  }
}

TEST(JsonObject, nesting_is_bounded_so_that_the_stack_is) {
  const auto nested = [](size_t depth) {
    return "{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  EXPECT_TRUE(accepts(nested(JsonObject::kDepthMax)));
  EXPECT_FALSE(accepts(nested(JsonObject::kDepthMax + 1)));
  EXPECT_FALSE(accepts("{\"a\":" + std::string(1'000'000, '[')));
}

TEST(JsonText, utf8_is_judged_as_the_standard_does) {
  for (const std::string_view good :
       {"", "plain ascii text", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xef\xbf\xbf",
        "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const std::string_view bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xc2", "12345678\xc2", "\xe0\x9f\xbf", "\xed\xa0\x80",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82", "\xf0\x90\x80", "\xff"}) {
    EXPECT_FALSE(is_utf8(bad)) << bad;
  }
}

TEST(JsonText, base64_gives_back_all_bytes_and_takes_one_spelling_only) {
  Prng prng(5);
  for (size_t bytes = 0; bytes < 200; ++bytes) {
    std::string plain(bytes, '\0');
    for (char& byte : plain) byte = static_cast<char>(prng.below(256));
    std::string text;
    append_base64(text, plain);
    std::string back;
    ASSERT_TRUE(append_base64_decoded(back, text));
    ASSERT_EQ(back, plain);
  }
  std::string hello;
  append_base64(hello, "hello");
  EXPECT_EQ(hello, "aGVsbG8=");
  for (const std::string_view bad :
       {"a", "ab", "abc", "ab==c", "====", "a===", "YR==", "YQ=", "Y Q=", "YQ==YQ==", "-_-_"}) {
    std::string back;
    EXPECT_FALSE(append_base64_decoded(back, bad)) << bad;
  }
}

}  // namespace
}  // namespace refract::records
