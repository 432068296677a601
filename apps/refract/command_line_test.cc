// SPDX-License-Identifier: Apache-2.0
// What the words of a command line mean, and that the help pages tell all of them.
#include "apps/refract/command_line.h"

#include <gtest/gtest.h>

#include "apps/refract/help.h"

namespace refract::cli {
namespace {

Reported<Invocation> parse(std::vector<const char*> words, const char* socket = nullptr) {
  words.insert(words.begin(), "refract");
  return parse_command_line(static_cast<int>(words.size()), words.data(), socket);
}

TEST(CommandLine, every_option_of_a_command_stands_in_its_help) {
  for (const HelpPage& page : help_pages()) {
    const std::string help = help_of(page.command);
    EXPECT_NE(help.find("Examples\n  $ refract "), std::string::npos) << page.command;
    for (const std::string& option : option_names(page.command)) {
      EXPECT_NE(help.find(option), std::string::npos) << page.command << " " << option;
    }
    EXPECT_NE(overview().find(std::string("\n  ").append(page.command).append(" ")), std::string::npos);
  }
}

TEST(CommandLine, no_line_of_help_is_wider_than_a_terminal) {
  std::string all = overview();
  for (const HelpPage& page : help_pages()) all += help_of(page.command);
  size_t begin = 0;
  for (size_t end = all.find('\n'); end != std::string::npos; end = all.find('\n', begin)) {
    EXPECT_LE(end - begin, 88U) << all.substr(begin, end - begin);
    begin = end + 1;
  }
}

TEST(CommandLine, keys_and_values_are_taken_as_they_are) {
  for (const char* word : {"get", "put", "{}", "[a,b]", "", "%%", "a=b", "--", "-x", "'q'", "a b"}) {
    const bool has_dash = word[0] == '-';
    const auto put = has_dash ? parse({"put", "--", "k", word}) : parse({"put", "k", word});
    ASSERT_TRUE(put) << word << ": " << put.error().to_string();
    EXPECT_EQ(put->value.text, word);
    EXPECT_EQ(put->value.kind, Source::Kind::kText);
  }
  const auto get = parse({"get", "--", "-k"});
  ASSERT_TRUE(get);
  EXPECT_EQ(get->key.text, "-k");
}

TEST(CommandLine, a_dash_is_the_standard_input_once) {
  const auto put = parse({"put", "-", "v"});
  ASSERT_TRUE(put);
  EXPECT_EQ(put->key.kind, Source::Kind::kStandardInput);
  EXPECT_FALSE(parse({"put", "-", "-"}));
}

TEST(CommandLine, durations_numbers_and_choices_are_checked) {
  const auto put = parse({"put", "k", "v", "--ttl", "1min", "--timeout=250ms"});
  ASSERT_TRUE(put);
  EXPECT_EQ(put->ttl_ns, 60'000'000'000U);
  EXPECT_EQ(put->timeout_ns, 250'000'000U);
  EXPECT_FALSE(parse({"put", "k", "v", "--ttl", "soon"}));
  EXPECT_FALSE(parse({"put", "k", "v", "--if-version", "-1"}));
  EXPECT_FALSE(parse({"put", "k", "v", "--if-version", "3", "--if-absent"}));
  EXPECT_FALSE(parse({"load", "f", "--format", "xml"}));
  EXPECT_FALSE(parse({"load", "f", "--header", "maybe"}));
  EXPECT_FALSE(parse({"load"}));
  EXPECT_FALSE(parse({"dump", "--format", "dir"}));
}

TEST(CommandLine, the_flag_wins_over_the_environment) {
  EXPECT_EQ(parse({"stat"}, "/e")->socket, "/e");
  EXPECT_EQ(parse({"stat", "--socket", "/f"}, "/e")->socket, "/f");
  EXPECT_EQ(parse({"--socket", "/f", "stat"}, "/e")->socket, "/f");
}

TEST(CommandLine, errors_name_what_was_meant) {
  EXPECT_NE(parse({"gett", "k"}).error().next.find("refract get"), std::string::npos);
  EXPECT_NE(parse({"get", "k", "--sokket"}).error().what.find("--socket"), std::string::npos);
  EXPECT_NE(parse({"get"}).error().what.find("key is missing"), std::string::npos);
  EXPECT_EQ(parse({}).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace refract::cli
