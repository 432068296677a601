// SPDX-License-Identifier: Apache-2.0
#include "refract/base/printable.h"

#include <gtest/gtest.h>

#include <string>

#include "refract/base/prng.h"

namespace refract {
namespace {

TEST(Printable, text_of_all_languages_stays_as_it_is) {
  const std::string text = "plain, caf\u00e9, \u65e5\u672c\u8a9e, \U0001f600, a \\ and 'quotes'";
  EXPECT_EQ(printable(text), text);
}

TEST(Printable, what_a_terminal_obeys_is_spelled) {
  EXPECT_EQ(printable("\x1b[31mred"), "\\x1b[31mred");
  EXPECT_EQ(printable(std::string("a\0b\r\x7f", 5)), "a\\x00b\\x0d\\x7f");
  // The same sequence with the control of one byte, as UTF-8 has it, and as it stands alone.
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");
  EXPECT_EQ(printable("\u202etxt.exe\u2066"), "\\xe2\\x80\\xaetxt.exe\\xe2\\x81\\xa6");
  EXPECT_EQ(printable("a\u2028b"), "a\\xe2\\x80\\xa8b");
}

TEST(Printable, line_breaks_and_tabs_stay_only_where_they_may) {
  EXPECT_EQ(printable("a\tb\nc"), "a\\x09b\\x0ac");
  EXPECT_EQ(printable("a\tb\nc\r\n", LineBreaks::kKept), "a\tb\nc\\x0d\n");
}

TEST(Printable, what_is_no_utf8_is_spelled_and_what_follows_is_not) {
  EXPECT_EQ(printable("\xff\u00e9\xc3"), "\\xff\u00e9\\xc3");
  EXPECT_EQ(printable("\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80z"),
            "\\xc0\\x80\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80z");
}

// No byte below space but a line break, and none that is alone what UTF-8 forbids, gets through.
TEST(Printable, nothing_that_a_terminal_obeys_gets_through_whatever_the_bytes) {
  Prng prng(16);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes(prng.below(12), ' ');
    for (char& byte : bytes) {
      byte = static_cast<char>(prng.below(3) == 0 ? prng.below(0x30) : 0x80 + prng.below(0x80));
    }
    const std::string shown = printable(bytes, LineBreaks::kKept);
    EXPECT_EQ(printable(shown, LineBreaks::kKept), shown) << "what is shown is safe by itself";
    for (const char byte : shown) {
      const auto value = static_cast<unsigned char>(byte);
      EXPECT_TRUE(value >= 0x20 || byte == '\n' || byte == '\t');
    }
    EXPECT_EQ(shown.find("\xc2\x9b"), std::string::npos);
  }
}

}  // namespace
}  // namespace refract
