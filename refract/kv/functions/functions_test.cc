// SPDX-License-Identifier: Apache-2.0
// Rows with their edges. Each row of these tables was compared with what a Redis 7.0.15 does, where it has
// it.
#include "refract/kv/functions/functions.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "refract/fabric/conformance/allocation_count.h"
#include "refract/kv/functions/text.h"

namespace refract::kv::functions {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();
constexpr uint64_t kNow_ns = 1'000'000;

// Nothing: the key is absent.
using Text = std::optional<std::string>;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
template <typename Number>
std::string raw(Number number) {
  std::string bytes(sizeof(number), '\0');
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}
Before before_of(std::optional<std::string_view> value, uint64_t expires_wall_ns = 0) {
  if (!value) return {};
  return {.is_there = true, .value = bytes_of(*value), .expires_wall_ns = expires_wall_ns};
}
std::string answer_of(const Plan& plan) {
  return {reinterpret_cast<const char*>(plan.answer.data()), plan.answer_bytes};
}
std::string value_of(Function function, const Plan& plan, std::string_view arguments, const Before& before) {
  std::string value(plan.value_bytes, '?');
  fill(function, plan, bytes_of(arguments), before, std::as_writable_bytes(std::span(value)));
  return value;
}
Plan plan_of(Function function, std::string_view arguments, const Before& before) {
  return plan(function, bytes_of(arguments), before, kNow_ns);
}

// A row that makes a value; the time to live stays.
void expect_value(Function function, const Text& value, const std::string& arguments,
                  const std::string& value_behind, const std::string& answer) {
  const Before before = before_of(value, value ? 7 * kNow_ns : 0);
  const Plan made = plan_of(function, arguments, before);
  EXPECT_EQ(made.code, Code::kOk);
  ASSERT_EQ(made.effect, Effect::kValue);
  EXPECT_EQ(made.expires_wall_ns, before.expires_wall_ns);
  EXPECT_EQ(value_of(function, made, arguments, before), value_behind);
  EXPECT_EQ(answer_of(made), answer);
}
void expect_none(Function function, const Text& value, const std::string& arguments,
                 const std::string& answer) {
  const Plan made = plan_of(function, arguments, before_of(value));
  EXPECT_EQ(made.code, Code::kOk);
  EXPECT_EQ(made.effect, Effect::kNone);
  EXPECT_EQ(answer_of(made), answer);
}
void expect_error(Function function, const Text& value, const std::string& arguments, Code code,
                  const std::string& answer = {}) {
  const Plan made = plan_of(function, arguments, before_of(value));
  EXPECT_EQ(made.code, code);
  EXPECT_EQ(made.effect, Effect::kNone);
  EXPECT_EQ(made.value_bytes, 0U);
  EXPECT_EQ(answer_of(made), answer);
}
void expect_refusal(Function function, const Text& value, const std::string& arguments, Refusal refusal) {
  expect_error(function, value, arguments, Code::kInvalidArgument, raw(refusal));
}

TEST(Functions, the_version_tells_the_mantissa) {
  EXPECT_EQ(version() & 0xff, static_cast<uint32_t>(LDBL_MANT_DIG));
  EXPECT_NE(version() >> 8, 0U);
}

TEST(Functions, arguments_of_another_form_are_refused_without_an_answer) {
  const std::pair<Function, std::string> rows[] = {
      {Function::kAdd, ""},
      {Function::kAdd, "1234567"},
      {Function::kAdd, "123456789"},
      {Function::kSetRange, ""},
      {Function::kSetRange, "1234567"},
      {Function::kExpire, ""},
      {Function::kExpire, raw(kHighest)},
      {Function::kExpire, raw(kHighest) + '\x10'},
      {Function::kExpire, raw(kHighest) + '\xff'},
      {Function::kExpire, raw(kHighest) + std::string(2, '\0')},
      {Function::kPersist, "1"},
      {Function{0}, ""},
      {Function{7}, ""},
      {Function{255}, raw(kHighest)},
  };
  for (const auto& [function, arguments] : rows) {
    SCOPED_TRACE(static_cast<int>(function));
    expect_error(function, "1", arguments, Code::kInvalidArgument);
    expect_error(function, std::nullopt, arguments, Code::kInvalidArgument);
  }
}

TEST(Functions, no_row_allocates) {
  const std::string arguments = raw(int64_t{3}) + "x";
  const uint64_t before = allocation_count();
  for (uint8_t number = 0; number < 8; ++number) {
    const auto function = static_cast<Function>(number);
    for (const size_t bytes : {size_t{0}, size_t{8}, size_t{9}}) {
      const auto some = bytes_of(std::string_view(arguments).substr(0, bytes));
      static_cast<void>(plan(function, some, {}, kNow_ns));
    }
  }
  static_cast<void>(plan_to_put(Function::kAddFloat, bytes_of("1e4000"), {}, kNow_ns));
  EXPECT_EQ(allocation_count(), before);
}

TEST(AddRow, sums_are_those_of_64_bits) {
  const auto expect_sum = [](const Text& value, int64_t addend, int64_t sum) {
    SCOPED_TRACE(value.value_or("(absent)"));
    expect_value(Function::kAdd, value, raw(addend), std::to_string(sum), raw(sum));
  };
  expect_sum(std::nullopt, 0, 0);
  expect_sum(std::nullopt, -5, -5);
  expect_sum(std::nullopt, kLowest, kLowest);
  expect_sum(std::nullopt, kHighest, kHighest);
  expect_sum("0", 0, 0);
  expect_sum("9", 1, 10);
  expect_sum("10", -1, 9);
  expect_sum("-1", 1, 0);
  expect_sum("9223372036854775807", 0, kHighest);
  expect_sum("9223372036854775807", kLowest, -1);
  expect_sum("9223372036854775806", 1, kHighest);
  expect_sum("-9223372036854775808", 0, kLowest);
  expect_sum("-9223372036854775808", kHighest, -1);
  expect_sum("-9223372036854775807", -1, kLowest);
}

TEST(AddRow, sums_beyond_64_bits_are_refused) {
  const std::pair<const char*, int64_t> rows[] = {
      {"9223372036854775807", 1},   {"1", kHighest}, {"9223372036854775807", kHighest},
      {"-9223372036854775808", -1}, {"-1", kLowest}, {"-9223372036854775808", kLowest},
  };
  for (const auto& [value, addend] : rows) {
    expect_refusal(Function::kAdd, value, raw(addend), Refusal::kOverflow);
  }
}

TEST(AddRow, what_is_no_integer_is_not_added_to) {
  for (const char* value : {"", "-0", "007", "+1", " 1", "1 ", "1.0", "x", "9223372036854775808"}) {
    expect_refusal(Function::kAdd, value, raw(int64_t{0}), Refusal::kNoInteger);
  }
  expect_refusal(Function::kAdd, std::string(1 << 20, '1'), raw(int64_t{0}), Refusal::kNoInteger);
}

TEST(AddFloatRow, sums_have_redis_s_texts) {
  const auto expect_sum = [](const Text& value, const char* addend, const char* sum) {
    SCOPED_TRACE(value.value_or("(absent)") + " + " + addend);
    expect_value(Function::kAddFloat, value, addend, sum, sum);
  };
  expect_sum(std::nullopt, "0", "0");
  expect_sum(std::nullopt, "-0", "0");
  expect_sum(std::nullopt, "-1.50", "-1.5");
  expect_sum("10.50", "0.1", "10.6");
  expect_sum("10.6", "-5", "5.6");
  expect_sum("5.0e3", "2.0e2", "5200");
  expect_sum("007", "+1", "8");
  expect_sum("0x1p3", "0x.8", "8.5");
  expect_sum("1e400", "-1e400", "0");
  expect_sum("3", "1.000000000000000000000000000000000000", "4");
  expect_sum("0.1", "0.2", "0.3");
  expect_sum("9223372036854775807", "1", "9223372036854775808");
  expect_sum("1e31", "0", "9999999999999999999834643759104");
  expect_sum("0.00000000000000001", "0.00000000000000001", "0.00000000000000002");
  expect_sum("1", "1e-4940", "1");
}

TEST(AddFloatRow, what_is_no_float_is_not_added) {
  for (const char* text : {"", " 1", "1 ", "nan", "x", "1e5000", "1e-5000", "0x"}) {
    expect_refusal(Function::kAddFloat, "1", text, Refusal::kNoFloat);
    expect_refusal(Function::kAddFloat, text, "1", Refusal::kNoFloat);
    expect_refusal(Function::kAddFloat, std::nullopt, text, Refusal::kNoFloat);
  }
  const std::string ones = "1." + std::string(kFloatTextMax - 2, '0');
  expect_value(Function::kAddFloat, ones + "0", ones, "2", "2");
  expect_refusal(Function::kAddFloat, "1", ones + "0", Refusal::kNoFloat);
}

TEST(AddFloatRow, sums_are_finite) {
  expect_refusal(Function::kAddFloat, "inf", "1", Refusal::kNotFinite);
  expect_refusal(Function::kAddFloat, "1", "-inf", Refusal::kNotFinite);
  expect_refusal(Function::kAddFloat, "inf", "-inf", Refusal::kNotFinite);
  expect_refusal(Function::kAddFloat, std::nullopt, "infinity", Refusal::kNotFinite);
  expect_refusal(Function::kAddFloat, "1e4932", "1e4932", Refusal::kNotFinite);
}

// An answer of 32 bytes cannot tell them: a client puts them itself.
TEST(AddFloatRow, long_texts_are_for_clients_alone) {
  struct Row {
    std::string value, arguments, sum;
  };
  const Row rows[] = {
      {"123456789012345.1", "1", "123456789012346.09999847412109375"},
      {"-123456789012345.1", "1", "-123456789012344.09999847412109375"},
      {"1e32", "0", "100000000000000000000545460846592"},
      {"-1e31", "-0", "-9999999999999999999834643759104"},
  };
  for (const auto& [value, arguments, sum] : rows) {
    const Before before = before_of(value, 2 * kNow_ns);
    const bool is_long = sum.size() > kAnswerBytesMax;
    const Plan of_owner = plan_of(Function::kAddFloat, arguments, before);
    EXPECT_EQ(of_owner.code, is_long ? Code::kTooLarge : Code::kOk) << value;
    const Plan of_client = plan_to_put(Function::kAddFloat, bytes_of(arguments), before, kNow_ns);
    ASSERT_EQ(of_client.effect, Effect::kValue);
    EXPECT_EQ(of_client.expires_wall_ns, 2 * kNow_ns);
    EXPECT_EQ(answer_of(of_client), is_long ? std::string() : sum);
    EXPECT_EQ(value_of(Function::kAddFloat, of_client, arguments, before), sum);
  }
  const Plan highest = plan_to_put(Function::kAddFloat, bytes_of("1e4932"), {}, kNow_ns);
  EXPECT_EQ(highest.value_bytes, 4933U);
  EXPECT_EQ(value_of(Function::kAddFloat, highest, "1e4932", {}).substr(0, 21), "100000000000000000000");
  EXPECT_EQ(plan_to_put(Function::kAddFloat, bytes_of("inf"), {}, kNow_ns).code, Code::kInvalidArgument);
}

TEST(AppendRow, bytes_come_behind_those_before) {
  const auto expect_text = [](const Text& value, const std::string& bytes, const std::string& behind) {
    expect_value(Function::kAppend, value, bytes, behind, raw(uint64_t{behind.size()}));
  };
  expect_text(std::nullopt, "", "");
  expect_text(std::nullopt, "abc", "abc");
  expect_text("", "", "");
  expect_text("abc", "", "abc");
  expect_text("abc", std::string("\0d", 2), std::string("abc\0d", 5));
}

// Of so long values nothing is read to plan.
TEST(AppendRow, a_value_has_512_mib_at_most) {
  const std::byte none{};
  const auto planned = [&](uint64_t bytes, std::string_view more) {
    return plan_of(Function::kAppend, more, {.is_there = true, .value = {&none, bytes}});
  };
  EXPECT_EQ(planned(kValueBytesMax - 1, "x").code, Code::kOk);
  EXPECT_EQ(planned(kValueBytesMax - 1, "x").value_bytes, kValueBytesMax);
  EXPECT_EQ(planned(kValueBytesMax - 1, "xy").code, Code::kTooLarge);
  EXPECT_EQ(planned(kValueBytesMax, "").code, Code::kOk);
  EXPECT_EQ(planned(kValueBytesMax, "x").code, Code::kTooLarge);
  EXPECT_EQ(planned(kValueBytesMax, "x").answer_bytes, 0);
}

TEST(SetRangeRow, bytes_take_the_place_of_those_before) {
  const auto expect_text = [](const Text& value, uint64_t offset, const char* bytes,
                              const std::string& behind) {
    SCOPED_TRACE(offset);
    expect_value(Function::kSetRange, value, raw(offset) + bytes, behind, raw(uint64_t{behind.size()}));
  };
  expect_text(std::nullopt, 0, "ab", "ab");
  expect_text(std::nullopt, 2, "ab", std::string("\0\0ab", 4));
  expect_text("", 1, "a", std::string("\0a", 2));
  expect_text("12345", 0, "ab", "ab345");
  expect_text("12345", 2, "ab", "12ab5");
  expect_text("12345", 3, "ab", "123ab");
  expect_text("12345", 4, "ab", "1234ab");
  expect_text("12345", 5, "ab", "12345ab");
  expect_text("12345", 7, "ab", std::string("12345\0\0ab", 9));
  expect_text("12345", 0, "abcdefg", "abcdefg");
}

TEST(SetRangeRow, no_bytes_change_nothing) {
  for (const uint64_t offset : {uint64_t{0}, uint64_t{3}, kValueBytesMax, kValueBytesMax + 1, UINT64_MAX}) {
    expect_none(Function::kSetRange, std::nullopt, raw(offset), raw(uint64_t{0}));
    expect_none(Function::kSetRange, "12345", raw(offset), raw(uint64_t{5}));
  }
}

TEST(SetRangeRow, a_value_has_512_mib_at_most) {
  const Plan longest = plan_of(Function::kSetRange, raw(kValueBytesMax - 2) + "ab", before_of("1"));
  EXPECT_EQ(longest.code, Code::kOk);
  EXPECT_EQ(longest.value_bytes, kValueBytesMax);
  for (const uint64_t offset :
       {kValueBytesMax - 1, kValueBytesMax, kValueBytesMax + 1, UINT64_MAX - 1, UINT64_MAX}) {
    expect_error(Function::kSetRange, std::nullopt, raw(offset) + "ab", Code::kTooLarge);
    expect_error(Function::kSetRange, "12345", raw(offset) + "ab", Code::kTooLarge);
  }
}

// All sixteen combinations of conditions, with a moment in front of, at and behind the expiry there, and
// none.
TEST(ExpireRow, conditions_compare_with_the_expiry_there) {
  constexpr uint64_t kExpiry_ns = 3 * kNow_ns;
  for (unsigned conditions = 0; conditions < 16; ++conditions) {
    for (const bool expires : {false, true}) {
      for (const uint64_t moment : {kExpiry_ns - 1, kExpiry_ns, kExpiry_ns + 1}) {
        SCOPED_TRACE(testing::Message() << conditions << ' ' << expires << ' ' << moment);
        bool is_met = true;
        if ((conditions & 1) != 0 && expires) is_met = false;
        if ((conditions & 2) != 0 && !expires) is_met = false;
        if ((conditions & 4) != 0 && (!expires || moment != kExpiry_ns + 1)) is_met = false;
        if ((conditions & 8) != 0 && expires && moment != kExpiry_ns - 1) is_met = false;
        const std::string arguments = raw(moment) + raw(static_cast<uint8_t>(conditions));
        const Text value = "value";
        const Before before = before_of(value, expires ? kExpiry_ns : 0);
        const Plan made = plan_of(Function::kExpire, arguments, before);
        EXPECT_EQ(made.code, Code::kOk);
        EXPECT_EQ(answer_of(made), raw(static_cast<uint8_t>(is_met)));
        ASSERT_EQ(made.effect, is_met ? Effect::kValue : Effect::kNone);
        if (!is_met) continue;
        EXPECT_EQ(made.expires_wall_ns, moment);
        EXPECT_EQ(value_of(Function::kExpire, made, arguments, before), "value");
      }
    }
  }
}

TEST(ExpireRow, an_absent_key_stays_so) {
  for (uint8_t conditions = 0; conditions < 16; ++conditions) {
    for (const uint64_t moment : {uint64_t{0}, kNow_ns, 2 * kNow_ns}) {
      expect_none(Function::kExpire, std::nullopt, raw(moment) + raw(conditions), raw(uint8_t{0}));
    }
  }
}

TEST(ExpireRow, a_moment_that_is_over_erases) {
  const Text value = "value";
  const auto planned = [&](uint64_t moment, uint8_t conditions) {
    return plan_of(Function::kExpire, raw(moment) + raw(conditions), before_of(value, 3 * kNow_ns));
  };
  for (const uint64_t moment : {uint64_t{0}, uint64_t{1}, kNow_ns - 1, kNow_ns}) {
    for (const uint8_t conditions : {uint8_t{0}, uint8_t{kIfSome}, uint8_t{kIfEarlier}}) {
      const Plan made = planned(moment, conditions);
      EXPECT_EQ(made.code, Code::kOk);
      EXPECT_EQ(made.effect, Effect::kErase);
      EXPECT_EQ(made.value_bytes, 0U);
      EXPECT_EQ(made.expires_wall_ns, 0U);
      EXPECT_EQ(answer_of(made), raw(uint8_t{1}));
    }
    EXPECT_EQ(planned(moment, kIfNone).effect, Effect::kNone);
    EXPECT_EQ(planned(moment, kIfLater).effect, Effect::kNone);
  }
  EXPECT_EQ(planned(kNow_ns + 1, 0).effect, Effect::kValue);
  EXPECT_EQ(planned(UINT64_MAX, 0).expires_wall_ns, UINT64_MAX);
}

TEST(PersistRow, an_expiry_goes_and_the_value_stays) {
  expect_none(Function::kPersist, std::nullopt, "", raw(uint8_t{0}));
  expect_none(Function::kPersist, "value", "", raw(uint8_t{0}));
  for (const char* text : {"", "value"}) {
    const Text value = text;
    const Before before = before_of(value, 3 * kNow_ns);
    const Plan made = plan_of(Function::kPersist, "", before);
    EXPECT_EQ(made.code, Code::kOk);
    EXPECT_EQ(made.effect, Effect::kValue);
    EXPECT_EQ(made.expires_wall_ns, 0U);
    EXPECT_EQ(answer_of(made), raw(uint8_t{1}));
    EXPECT_EQ(value_of(Function::kPersist, made, "", before), text);
  }
}

}  // namespace
}  // namespace refract::kv::functions
