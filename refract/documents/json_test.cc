// SPDX-License-Identifier: Apache-2.0
#include "refract/documents/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>

namespace refract::documents {
namespace {

using ::testing::SizeIs;

Value example() {
  const std::vector<double> turns = {1, 0.1, 1e300, -2.5};
  Value value = {{"word", "caf\u00e9 \"quoted\"\n\x01"},
                 {"bytes", std::string("\xff\xfe")},
                 {"largest", std::numeric_limits<uint64_t>::max()},
                 {"least", std::numeric_limits<int64_t>::min()},
                 {"real", 3.0},
                 {"none", std::numeric_limits<double>::infinity()},
                 {"null", Value()},
                 {"truth", true},
                 {"turns", turns},
                 {"pair", {1, 2}},
                 {"array of pairs", Value::array({Value::array({"a", 1})})},
                 {"empty", Value::array()},
                 {"also empty", Value::object()},
                 {"inner", {{"b", 1}, {"a", {{"deep", std::array<uint64_t, 2>{7, 8}}}}}}};
  value["added"].push_back(1);
  return value;
}

// The same, as the library itself has it.
template <typename Json>
Json expected() {
  const std::vector<double> turns = {1, 0.1, 1e300, -2.5};
  return {{"word", "caf\u00e9 \"quoted\"\n\x01"},
          {"bytes", std::string("\xff\xfe")},
          {"largest", std::numeric_limits<uint64_t>::max()},
          {"least", std::numeric_limits<int64_t>::min()},
          {"real", 3.0},
          {"none", std::numeric_limits<double>::infinity()},
          {"null", nullptr},
          {"truth", true},
          {"turns", turns},
          {"pair", {1, 2}},
          {"array of pairs", Json::array({Json::array({"a", 1})})},
          {"empty", Json::array()},
          {"also empty", Json::object()},
          {"inner", {{"b", 1}, {"a", {{"deep", std::array<uint64_t, 2>{7, 8}}}}}},
          {"added", Json::array({1})}};
}

TEST(Json, a_line_and_a_page_are_what_the_library_writes) {
  const auto replace = nlohmann::json::error_handler_t::replace;
  Value value = example();
  EXPECT_EQ(to_json_line(value), expected<nlohmann::json>().dump(-1, ' ', false, replace));
  EXPECT_EQ(to_json_page(value), expected<nlohmann::ordered_json>().dump(2, ' ', false, replace) + "\n");
}

TEST(Json, a_row_keeps_the_order_and_spells_what_is_no_text) {
  EXPECT_EQ(
      to_json_row({{"b", "caf\u00e9 \"quoted\"\n\x01"}, {"a", {1, -2}}, {"bytes", std::string("\xff\n")}}),
      "{\"b\": \"caf\u00e9 \\\"quoted\\\"\\n\\u0001\", \"a\": [1, -2], \"bytes\": "
      "\"\\\\xff\\\\x0a\"}\n");
  EXPECT_EQ(to_json_row(Value::object()), "{}\n");
}

TEST(Json, what_was_written_is_read_again) {
  const std::string line = to_json_line(example());
  const std::optional<Value> read = parse_json(line);
  ASSERT_TRUE(read);
  EXPECT_EQ(to_json_line(*read), line);
  EXPECT_TRUE(read->find("largest")->is_unsigned());
  EXPECT_TRUE(read->find("least")->is_integer());
  EXPECT_EQ(read->find("real")->as_number(), 3.0);
  EXPECT_EQ(read->find("turns")->elements()[1].as_number(), 0.1);
  EXPECT_THAT(read->find("inner")->members(), SizeIs(2));
  EXPECT_EQ(read->find("nothing"), nullptr);
}

TEST(Json, of_members_with_one_name_the_last_is_read) {
  const std::optional<Value> read = parse_json(R"({"a":1,"a":2})");
  ASSERT_TRUE(read);
  EXPECT_EQ(to_json_line(*read), R"({"a":2})");
}

TEST(Json, what_is_none_or_too_deep_is_refused) {
  for (const char* text : {"", "{", "[1,]", "{\"a\"}", "nul", "1 2", "\"\xff\""}) {
    EXPECT_FALSE(parse_json(text)) << text;
  }
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_json(nested(kJsonDepthMax)));
  EXPECT_FALSE(parse_json(nested(kJsonDepthMax + 2)));
  EXPECT_FALSE(parse_json(nested(1'000'000)));
  EXPECT_FALSE(parse_json(std::string(1'000'000, '[')));
}

TEST(Value, members_are_made_replaced_and_added) {
  Value value;
  value["a"] = 1;
  value["b"] = "text";
  value["a"] = 2;
  value.update({{"b", true}, {"c", 0.5}});
  EXPECT_EQ(to_json_line(value), R"({"a":2,"b":true,"c":0.5})");
  EXPECT_EQ(value.size(), 3u);
}

TEST(Value, what_is_neither_array_nor_object_has_no_parts) {
  for (const Value& value : {Value(), Value(1), Value("text"), Value(true)}) {
    EXPECT_TRUE(value.empty());
    EXPECT_EQ(value.begin(), value.end());
    EXPECT_EQ(value.find("a"), nullptr);
  }
}

}  // namespace
}  // namespace refract::documents
