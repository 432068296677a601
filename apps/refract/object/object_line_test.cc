// SPDX-License-Identifier: Apache-2.0
// What the words behind `refract object` mean, and that its help pages tell all of them.
#include "apps/refract/object/object_line.h"

#include <gtest/gtest.h>

namespace refract::cli::object_line_test {
namespace {

Reported<ObjectInvocation> parse(const std::vector<const char*>& words, const char* socket = nullptr) {
  const auto at = object_word(words);
  EXPECT_TRUE(at);
  return parse_object_line(words, at.value_or(0), socket);
}

TEST(ObjectLine, every_option_of_an_action_stands_in_its_help) {
  for (const HelpPage& page : object_pages()) {
    const std::string help = help_of_object(page.command);
    EXPECT_NE(help.find("Examples\n  $ refract object "), std::string::npos) << page.command;
    for (const std::string& option : object_option_names(page.command)) {
      EXPECT_NE(help.find(option), std::string::npos) << page.command << " " << option;
    }
    EXPECT_NE(object_overview().find(std::string("\n  ").append(page.command).append(" ")),
              std::string::npos);
  }
}

TEST(ObjectLine, no_line_of_help_is_wider_than_a_terminal) {
  std::string all = object_overview();
  for (const HelpPage& page : object_pages()) all += help_of_object(page.command);
  size_t begin = 0;
  for (size_t end = all.find('\n'); end != std::string::npos; end = all.find('\n', begin)) {
    EXPECT_LE(end - begin, 88U) << all.substr(begin, end - begin);
    begin = end + 1;
  }
}

// The word may follow options of the node, and is no other command's argument.
TEST(ObjectLine, the_word_object_is_found_where_it_is_the_command) {
  EXPECT_EQ(object_word(std::vector{"object", "ls"}), 0U);
  EXPECT_EQ(object_word(std::vector{"--socket", "object", "object", "ls"}), 2U);
  EXPECT_EQ(object_word(std::vector{"--socket=/s", "object"}), 1U);
  EXPECT_EQ(object_word(std::vector{"help", "object"}), 1U);
  EXPECT_EQ(object_word(std::vector{"get", "object"}), std::nullopt);
  EXPECT_EQ(object_word(std::vector<const char*>{}), std::nullopt);
}

TEST(ObjectLine, ids_are_bytes_in_two_forms) {
  const auto put = parse({"object", "put", "--metadata", "about", "--", "-id", "file"});
  ASSERT_TRUE(put) << put.error().to_string();
  EXPECT_EQ(put->ids, std::vector<std::string>{"-id"});
  EXPECT_EQ(put->file, "file");
  EXPECT_EQ(put->metadata, "about");
  const auto removed = parse({"object", "rm", "--hex", "00ff", "Ab"});
  ASSERT_TRUE(removed);
  EXPECT_EQ(removed->ids, (std::vector<std::string>{std::string("\0\xff", 2), "\xab"}));
  EXPECT_FALSE(parse({"object", "rm", "--hex", "0g"}));
  EXPECT_FALSE(parse({"object", "rm", "--hex", "012"}));
  EXPECT_FALSE(parse({"object", "get", ""}));
  EXPECT_FALSE(parse({"object", "get", std::string(256, 'i').c_str()}));
  EXPECT_TRUE(parse({"object", "get", std::string(255, 'i').c_str()}));
  EXPECT_FALSE(parse({"object", "get"}));
}

TEST(ObjectLine, times_sizes_and_numbers_are_checked) {
  EXPECT_EQ(parse({"object", "get", "i", "--wait", "1min"})->wait_ms, 60'000U);
  EXPECT_EQ(parse({"object", "get", "i", "--wait", "forever"})->wait_ms, UINT64_MAX);
  EXPECT_EQ(parse({"object", "put", "i", "--wait", "no"})->wait_ms, 0U);
  EXPECT_EQ(parse({"object", "get", "i"})->wait_ms, std::nullopt);
  EXPECT_FALSE(parse({"object", "get", "i", "--wait", "soon"}));
  EXPECT_EQ(parse({"object", "evict", "64MiB"})->bytes, uint64_t{64} << 20);
  EXPECT_FALSE(parse({"object", "evict"}));
  EXPECT_FALSE(parse({"object", "evict", "much"}));
  EXPECT_FALSE(parse({"object", "rm", "a", "b", "--birth", "7"}));
  EXPECT_EQ(parse({"object", "rm", "a", "--birth", "7"})->birth, 7U);
  EXPECT_FALSE(parse({"object", "ls", "--limit", "0"}));
  EXPECT_FALSE(parse({"object", "ls", "--socket", "/s", "--address", "tcp:h:1"}));
}

TEST(ObjectLine, errors_name_what_was_meant) {
  EXPECT_NE(parse({"object", "remove"}).error().what.find("remove"), std::string::npos);
  EXPECT_NE(parse({"object", "gett", "i"}).error().next.find("refract object get"), std::string::npos);
  EXPECT_NE(parse({"object", "ls", "--prefiks", "x"}).error().what.find("--prefix"), std::string::npos);
  EXPECT_NE(parse({"object", "ls", "i"}).error().what.find("too many"), std::string::npos);
  EXPECT_FALSE(parse({"object"}));
  EXPECT_EQ(parse({"help", "object", "put"})->base.text_to_print, help_of_object("put"));
  EXPECT_EQ(parse({"object", "--help"})->base.text_to_print, object_overview());
  EXPECT_EQ(parse({"object", "ls"}, "/e")->base.socket, "/e");
}

}  // namespace
}  // namespace refract::cli::object_line_test
