// SPDX-License-Identifier: Apache-2.0
// Each row of these tables was compared with what a Redis 7.0.15 does.
#include "refract/kv/functions/text.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "refract/base/prng.h"

namespace refract::kv::functions {
namespace {

using Int64 = std::numeric_limits<int64_t>;

std::string written(long double number) {
  std::array<char, kFloatTextBytesMax> room;
  return {room.data(), write_float(number, room)};
}

// As it stands in Redis.
std::string written_by_printf(long double number) {
  std::array<char, kFloatTextBytesMax + 1> room;
  std::string text(room.data(),
                   static_cast<size_t>(std::snprintf(room.data(), room.size(), "%.17Lf", number)));
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

TEST(IntegerText, an_integer_has_one_text) {
  for (const int64_t number : {int64_t{0}, int64_t{7}, int64_t{-7}, int64_t{10}, int64_t{-10}, Int64::max(),
                               Int64::max() - 1, Int64::min(), Int64::min() + 1}) {
    const std::string text = std::to_string(number);
    EXPECT_EQ(integer_in(text), number);
    std::array<char, kIntegerTextBytesMax> room;
    EXPECT_EQ(std::string(room.data(), write_integer(number, room)), text);
  }
}

TEST(IntegerText, other_texts_are_no_integers) {
  for (const char* text : {"",
                           "-",
                           "--1",
                           "+1",
                           "-0",
                           "00",
                           "007",
                           "-01",
                           "-007",
                           " 1",
                           "1 ",
                           "\n1",
                           "1\n",
                           "1.0",
                           "1e3",
                           "0x10",
                           "abc",
                           "1a",
                           "9223372036854775808",
                           "-9223372036854775809",
                           "18446744073709551615",
                           "18446744073709551617",
                           "99999999999999999999",
                           "-99999999999999999999",
                           "000000000000000000001",
                           "-00000000000000000001",
                           "123456789012345678901234567890"}) {
    EXPECT_EQ(integer_in(text), std::nullopt) << text;
  }
  EXPECT_EQ(integer_in(std::string_view("1\0", 2)), std::nullopt);
  EXPECT_EQ(integer_in(std::string_view("\0", 1)), std::nullopt);
}

TEST(FloatText, floats_are_what_strtold_reads_to_its_end) {
  const std::pair<const char*, long double> rows[] = {
      {"0", 0.0L},          {"-0", -0.0L},
      {"007", 7.0L},        {"+1", 1.0L},
      {".5", 0.5L},         {"5.", 5.0L},
      {"1e3", 1000.0L},     {"1E+3", 1000.0L},
      {"-1.5e-1", -0.15L},  {"0x1p3", 8.0L},
      {"0X1.8P-2", 0.375L}, {"0x10", 16.0L},
      {"0x.8", 0.5L},       {"1e400", 1e400L},
      {"1e4932", 1e4932L},  {"-1e-4940", -1e-4940L},
      {"0e99999999", 0.0L}, {"9223372036854775808", 0x1p63L},
  };
  for (const auto& [text, number] : rows) {
    const auto read = float_in(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(*read, number) << text;
    EXPECT_EQ(std::signbit(*read), std::signbit(number)) << text;
  }
}

// Redis takes them, too, and refuses the sum.
TEST(FloatText, infinity_is_read) {
  for (const char* text : {"inf", "INF", "+inf", "infinity", "Infinity"}) {
    EXPECT_EQ(float_in(text), std::numeric_limits<long double>::infinity()) << text;
  }
  EXPECT_EQ(float_in("-inf"), -std::numeric_limits<long double>::infinity());
}

TEST(FloatText, other_texts_are_no_floats) {
  for (const char* text : {"",
                           " 1",
                           "1 ",
                           "\t1",
                           "\n1",
                           "\v1",
                           "\f1",
                           "\r1",
                           "1\n",
                           "abc",
                           "-",
                           "+",
                           ".",
                           "--1",
                           "+-1",
                           "e5",
                           "1e",
                           "1e+",
                           "1,5",
                           "1_0",
                           "1.5f",
                           "1.5L",
                           "0x",
                           "0xg",
                           "1.2.3",
                           "nan",
                           "NaN",
                           "-nan",
                           "nan(1)",
                           "infinit",
                           "1e4933",
                           "-1e5000",
                           "1e-4951",
                           "-1e-5000",
                           "1e99999999999999999999",
                           "1e-99999999999999999999"}) {
    EXPECT_EQ(float_in(text), std::nullopt) << text;
  }
  EXPECT_EQ(float_in(std::string_view("1\0", 2)), std::nullopt);
  EXPECT_EQ(float_in(std::string_view("1\0002", 3)), std::nullopt);
}

TEST(FloatText, a_text_is_read_up_to_a_bound) {
  EXPECT_EQ(float_in(std::string(kFloatTextBytesRead - 1, '0') + "1"), 1.0L);
  EXPECT_EQ(float_in(std::string(kFloatTextBytesRead, '0') + "1"), std::nullopt);
}

TEST(FloatText, reading_leaves_errno_as_it_was) {
  errno = EDOM;
  EXPECT_EQ(float_in("1e5000"), std::nullopt);
  EXPECT_EQ(errno, EDOM);
}

// What is given was exact, or the nearest long double of 64 bits.
TEST(FloatText, floats_have_no_zeros_at_their_ends) {
  static_assert(LDBL_MANT_DIG == 64);
  const std::pair<long double, const char*> rows[] = {
      {0.0L, "0"},
      {-0.0L, "0"},
      {3.0L, "3"},
      {-10.0L, "-10"},
      {100.5L, "100.5"},
      {0.1L, "0.1"},
      {-0.25L, "-0.25"},
      {1e-17L, "0.00000000000000001"},
      {1e-18L, "0"},
      {-4e-18L, "0"},
      {6e-18L, "0.00000000000000001"},
      {LDBL_MIN, "0"},
      {0x1p-18L, "0.00000381469726562"},  // In the middle: the even one.
      {0x3p-18L, "0.00001144409179688"},
      {0x1.fffffffffffffffep-1L, "1"},  // A digit carries to the next, and to the front.
      {9.99999999999999999999L, "10"},
      {-99.9999999999999999999L, "-100"},
      {0x1p63L, "9223372036854775808"},
      {0x1.fffffffffffffffep63L, "18446744073709551615"},
      {1e20L, "100000000000000000000"},
      {123456789012346.1L, "123456789012346.09999847412109375"},
      {-1e27L, "-1000000000000000000000000000"},
      {1e32L, "100000000000000000000545460846592"},
  };
  for (const auto& [number, text] : rows) EXPECT_EQ(written(number), text);
}

TEST(FloatText, floats_are_written_as_by_printf) {
  Prng prng(1);
  for (int i = 0; i < 20'000; ++i) {
    const auto bits = static_cast<long double>(prng.next() >> prng.next() % 64);
    const int exponent = static_cast<int>(prng.next() % 320) - 190;
    const long double number = std::ldexp(prng.next() % 2 == 0 ? bits : -bits, exponent);
    ASSERT_EQ(written(number), written_by_printf(number));
  }
  for (int exponent = LDBL_MIN_EXP - LDBL_MANT_DIG; exponent < LDBL_MAX_EXP; exponent += 97) {
    const long double number = std::ldexp(0x1.123456789abcdefep0L, exponent);
    ASSERT_EQ(written(number), written_by_printf(number));
  }
  EXPECT_EQ(written(LDBL_MAX), written_by_printf(LDBL_MAX));
  EXPECT_EQ(written(-LDBL_MAX), written_by_printf(-LDBL_MAX));
  EXPECT_EQ(written(LDBL_TRUE_MIN), "0");
}

TEST(FloatText, what_has_no_room_is_not_written) {
  for (const long double number :
       {0.0L, 7.0L, -7.0L, 0.1L, -12.75L, 123456789012346.1L, 1e31L, 1e32L, -1e400L, 0x1p100L, LDBL_MAX}) {
    const std::string text = written(number);
    for (size_t bytes = 0; bytes <= text.size() + 1; ++bytes) {
      std::string room(bytes, '?');
      const size_t wrote = write_float(number, room);
      ASSERT_EQ(wrote, bytes < text.size() ? 0 : text.size());
      if (wrote != 0) {
        ASSERT_EQ(room.substr(0, wrote), text);
      }
    }
  }
}

}  // namespace
}  // namespace refract::kv::functions
