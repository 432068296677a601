// SPDX-License-Identifier: Apache-2.0
#include "refract/node/config/knobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "refract/base/units.h"
#include "refract/node/config/config.h"

namespace refract::node {
namespace {

using testing::HasSubstr;

int64_t number(std::string_view key, std::string_view text) {
  const Reported<KnobValue> value = parse_value(*find_knob(key), text);
  EXPECT_TRUE(value) << (value ? "" : value.error().what);
  return value ? value->number : -1;
}

std::string refusal(std::string_view key, std::string_view text) {
  const Reported<KnobValue> value = parse_value(*find_knob(key), text);
  return value ? "accepted" : value.error().what;
}

TEST(Knobs, names_are_one_to_one) {
  std::set<std::string> flags;
  std::set<std::string> variables;
  for (const Knob& knob : knobs()) {
    flags.insert(flag_of(knob));
    variables.insert(environment_of(knob));
    EXPECT_EQ(find_knob(knob.key), &knob);
    EXPECT_EQ(std::ranges::count(knob.key, '.'), 1) << knob.key;
  }
  EXPECT_EQ(flags.size(), knobs().size());
  EXPECT_EQ(variables.size(), knobs().size());
  EXPECT_EQ(flag_of(*find_knob("memory.limit")), "--memory-limit");
  EXPECT_EQ(environment_of(*find_knob("memory.limit")), "REFRACT_MEMORY_LIMIT");
  EXPECT_EQ(find_knob("memory"), nullptr);
}

TEST(Knobs, every_default_is_in_range_and_shown_as_written) {
  for (const Knob& knob : knobs()) {
    EXPECT_NE(knob.fallback.empty(), knob.fallback_words.empty()) << knob.key;
    if (knob.fallback.empty()) continue;
    const Reported<KnobValue> value = parse_value(knob, knob.fallback);
    ASSERT_TRUE(value) << knob.key;
    NodeConfig config;
    ASSERT_TRUE(knob.store(config, *value)) << knob.key;
    const Reported<KnobValue> again = parse_value(knob, knob.show(config));
    ASSERT_TRUE(again) << knob.key;
    EXPECT_EQ(again->number, value->number) << knob.key;
    EXPECT_EQ(again->text, value->text) << knob.key;
  }
}

TEST(Knobs, sizes_take_every_unit) {
  EXPECT_EQ(number("memory.limit", "1GiB"), int64_t{1} << 30);
  EXPECT_EQ(number("memory.limit", "512 MiB"), int64_t{512} << 20);
  EXPECT_EQ(number("memory.limit", "2TiB"), int64_t{2} << 40);
  EXPECT_EQ(number("memory.limit", "16384KiB"), int64_t{16} << 20);
  EXPECT_EQ(number("memory.limit", "16777216"), int64_t{16} << 20);
  EXPECT_EQ(number("memory.limit", "16777216B"), int64_t{16} << 20);
}

TEST(Knobs, sizes_outside_or_of_unknown_units_are_refused) {
  EXPECT_EQ(refusal("memory.limit", "1KiB"), "expected 16MiB to 64TiB, or 1% to 100%, found '1KiB'");
  EXPECT_THAT(refusal("memory.limit", "9999999TiB"), HasSubstr("expected 16MiB to 64TiB"));
  EXPECT_THAT(refusal("memory.limit", "99999999999999999999"), HasSubstr("expected a size"));
  EXPECT_THAT(refusal("memory.limit", "-1GiB"), HasSubstr("expected 16MiB"));
  for (const char* text : {"", "lots", "1GB", "1gib", "GiB", "1.5GiB", "1GiBs", " 1GiB", "+1GiB"}) {
    EXPECT_THAT(refusal("memory.limit", text), HasSubstr("expected a size such as 512MiB")) << text;
  }
}

TEST(Knobs, shares_are_taken_only_where_they_make_sense) {
  EXPECT_EQ(parse_value(*find_knob("memory.limit"), "50%")->percent, 50);
  EXPECT_THAT(refusal("memory.limit", "0%"), HasSubstr("1% to 100%"));
  EXPECT_THAT(refusal("memory.limit", "101%"), HasSubstr("1% to 100%"));
  EXPECT_THAT(refusal("memory.initial", "50%"), HasSubstr("expected a size"));
}

TEST(Knobs, durations_need_their_unit) {
  EXPECT_EQ(number("server.spin", "50us"), 50'000);
  EXPECT_EQ(number("server.spin", "0ns"), 0);
  EXPECT_EQ(number("ttl.sweep", "2min"), 120'000'000'000);
  EXPECT_EQ(number("ttl.sweep", "1h"), 3'600'000'000'000);
  EXPECT_THAT(refusal("server.spin", "50"), HasSubstr("expected a duration such as 50us"));
  EXPECT_THAT(refusal("server.spin", "1s"), HasSubstr("expected 0ns to 10ms"));
}

TEST(Knobs, integers_and_bools_are_nothing_else) {
  EXPECT_EQ(number("server.cpu", "-1"), -1);
  EXPECT_EQ(refusal("clients.max", "0"), "expected 1 to 16384, found '0'");
  EXPECT_THAT(refusal("clients.max", "12x"), HasSubstr("expected an integer"));
  EXPECT_EQ(number("memory.dump", "true"), 1);
  EXPECT_THAT(refusal("memory.dump", "yes"), HasSubstr("expected true or false"));
}

TEST(Knobs, exact_values_come_back) {
  EXPECT_EQ(exact_bytes(0), "0B");
  EXPECT_EQ(exact_bytes(1536), "1536B");
  EXPECT_EQ(exact_bytes(3 * kGiB), "3GiB");
  EXPECT_EQ(exact_duration(0), "0ns");
  EXPECT_EQ(exact_duration(90 * kSecond_ns), "90s");
  EXPECT_EQ(exact_duration(1'500), "1500ns");
}

TEST(NearestName, finds_typing_errors_and_nothing_far) {
  const std::vector<std::string> names = {"memory.limit", "memory.initial", "log.level"};
  EXPECT_EQ(nearest_name("memory.limt", names), "memory.limit");
  EXPECT_EQ(nearest_name("memroy.limit", names), "memory.limit");
  EXPECT_EQ(nearest_name("log.levle", names), "log.level");
  EXPECT_EQ(nearest_name("colour", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name(std::string(100'000, 'x'), names), "");
}

}  // namespace
}  // namespace refract::node
