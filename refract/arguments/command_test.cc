// SPDX-License-Identifier: Apache-2.0
#include "refract/arguments/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace refract::arguments {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CommandRead read(Command& command, const std::vector<const char*>& words) {
  return command.read(words);
}

TEST(Command, rows_fill_their_variables) {
  Command command;
  bool is_loud = false;
  uint64_t keys = 7;
  double seconds = 0;
  std::vector<std::string> files;
  command.add({.names = "-l,--loud", .to = &is_loud});
  command.add({.names = "--keys", .to = &keys});
  command.add({.names = "--seconds", .to = &seconds});
  command.add({.names = "FILE", .to = &files});
  const CommandRead said = read(command, {"a", "--seconds", "0.5", "-l", "b"});
  EXPECT_EQ(said.refused, "");
  EXPECT_TRUE(is_loud);
  EXPECT_EQ(keys, 7u) << "no word changes what is not named";
  EXPECT_EQ(seconds, 0.5);
  EXPECT_THAT(files, ElementsAre("a", "b"));
  EXPECT_TRUE(command.has("--seconds"));
  EXPECT_FALSE(command.has("--keys"));
}

TEST(Command, words_as_they_stood_are_kept_even_where_they_look_like_a_list) {
  Command command;
  Given key;
  Given other;
  Given bare;
  command.add({.names = "KEY", .to = &key});
  command.add({.names = "--other", .to = &other, .last_counts = true});
  command.add({.names = "--bare", .to = &bare, .may_be_bare = true});
  EXPECT_EQ(read(command, {"{}", "--bare"}).refused, "");
  EXPECT_THAT(key.words, ElementsAre("{}"));
  EXPECT_FALSE(other.is_there);
  EXPECT_TRUE(bare.is_there);
  EXPECT_EQ(bare.last(), "");
  EXPECT_EQ(other.last(), "");
}

TEST(Command, names_give_the_values_of_an_enumeration) {
  enum class Colour { kRed, kBlue };
  const std::map<std::string, Colour> colours = {{"red", Colour::kRed}, {"blue", Colour::kBlue}};
  Command command;
  Colour one = Colour::kRed;
  std::vector<Colour> several;
  command.add({.names = "--one", .to = one_of(colours, one)});
  command.add({.names = "--several", .to = some_of(colours, several), .separator = ','});
  EXPECT_EQ(read(command, {"--one", "blue", "--several", "red,blue"}).refused, "");
  EXPECT_EQ(one, Colour::kBlue);
  EXPECT_THAT(several, ElementsAre(Colour::kRed, Colour::kBlue));

  Command strict;
  strict.add({.names = "--one", .to = one_of(colours, one)});
  EXPECT_THAT(read(strict, {"--one", "green"}).refused, HasSubstr("green"));
}

TEST(Command, what_a_row_forbids_is_refused) {
  const auto refused = [](const std::vector<const char*>& words) {
    Command command;
    uint64_t turns = 0;
    uint64_t keys = 0;
    std::string word;
    std::string address;
    command.add({.names = "--turns", .to = &turns, .limit = Between<int>{1, 9}});
    command.add({.names = "--keys", .to = &keys, .limit = Sign::kPositive});
    command.add({.names = "--word", .to = &word, .limit = Words{"a", "b"}});
    command.add({.names = "--address", .to = &address, .excludes = "--word"});
    return read(command, words).refused;
  };
  EXPECT_EQ(refused({"--turns", "9", "--keys", "1", "--word", "b"}), "");
  EXPECT_NE(refused({"--turns", "10"}), "");
  EXPECT_NE(refused({"--keys", "0"}), "");
  EXPECT_NE(refused({"--word", "c"}), "");
  EXPECT_NE(refused({"--word", "a", "--address", "x"}), "");
  EXPECT_NE(refused({"--keys", "1", "--keys", "2"}), "");
  EXPECT_NE(refused({"unknown"}), "");

  Command command;
  std::string file;
  command.add({.names = "FILE", .to = &file, .is_required = true});
  EXPECT_NE(read(command, {}).refused, "");
}

TEST(Command, unknown_words_are_told_apart_by_the_command_before_them) {
  Command root({}, {.keeps_unknown = true});
  Command& get = root.add_command("get");
  Given key;
  get.add({.names = "KEY", .to = &key});
  const CommandRead said = read(root, {"--odd", "get", "k", "--odder"});
  EXPECT_EQ(said.refused, "");
  EXPECT_EQ(said.command, "get");
  EXPECT_TRUE(get.was_named());
  EXPECT_THAT(said.unknown, ElementsAre("--odd"));
  EXPECT_THAT(said.unknown_after_it, ElementsAre("--odder"));
  EXPECT_THAT(key.words, ElementsAre("k"));
}

TEST(Command, help_is_asked_for_and_a_missing_command_is_refused) {
  Command root({}, {.needs_command = true});
  EXPECT_TRUE(read(root, {"--help"}).wants_help);
  Command other({}, {.needs_command = true});
  other.add_command("get");
  const CommandRead said = read(other, {});
  EXPECT_FALSE(said.wants_help);
  EXPECT_NE(said.refused, "");
  EXPECT_THAT(said.command, IsEmpty());
}

TEST(Command, names_of_all_options_are_listed) {
  Command command;
  bool is_loud = false;
  Given key;
  command.add({.names = "-l,--loud", .to = &is_loud});
  command.add({.names = "KEY", .to = &key});
  EXPECT_THAT(command.long_names(), ElementsAre("--help", "--loud"));
}

}  // namespace
}  // namespace refract::arguments
