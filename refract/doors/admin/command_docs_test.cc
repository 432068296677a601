// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/admin/command_docs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "refract/doors/admin/command_texts.h"
#include "refract/doors/redis/replies.h"

namespace refract::doors::redis {
namespace {

std::string told(const std::function<void(Reply&)>& tell) {
  Replies replies;
  Reply reply(replies, Protocol::kResp3);
  tell(reply);
  return replies.text();
}

void for_each_row(const std::function<void(const Row&)>& look) {
  for (const Row& row : rows()) {
    look(row);
    if (row.subcommands == nullptr) continue;
    for (const Row& one : row.subcommands()) look(one);
  }
}

// Claim: what there is a row for is described, and nothing else, and the tables are in the order in which
// they are searched.
TEST(CommandTexts, every_command_has_them) {
  for (const auto texts : {texts_of_keys(), texts_of_others()}) {
    EXPECT_TRUE(std::ranges::is_sorted(texts, {}, &CommandText::name));
  }
  size_t count = 0;
  for_each_row([&](const Row& row) {
    ++count;
    const CommandText* const text = text_of(row.name);
    ASSERT_NE(text, nullptr) << row.name;
    EXPECT_FALSE(text->summary.empty()) << row.name;
    EXPECT_EQ(text->key_flags.empty(), row.first_key == 0) << row.name;
  });
  EXPECT_GT(count, rows().size());
  EXPECT_EQ(count, texts_of_keys().size() + texts_of_others().size());
  EXPECT_EQ(text_of("nothing"), nullptr);
}

// Claim: each is found by its name in any letters, those of a command behind a bar, and no other.
TEST(Commands, are_found_by_their_names) {
  for_each_row([](const Row& row) { EXPECT_EQ(row_of_full_name(row.name), &row); });
  const std::string_view list[] = {"CLIENT", "List"};
  ASSERT_NE(row_called_by(list), nullptr);
  EXPECT_EQ(row_called_by(list)->name, "client|list");
  EXPECT_EQ(row_called_by(Words(list).first(1))->name, "client");
  for (const std::string_view none : {"client|", "client|nothing", "|list", "get|list", "", "|"}) {
    EXPECT_EQ(row_of_full_name(none), nullptr) << none;
  }
}

// Claim: the small language of arguments becomes Redis's maps.
TEST(CommandDocs, arguments_are_told_as_redis_tells_them) {
  const std::string set = told([](Reply& reply) { tell_docs(reply, *row_of("set")); });
  EXPECT_NE(
      set.find("%3\r\n$4\r\nname\r\n$3\r\nkey\r\n$4\r\ntype\r\n$3\r\nkey\r\n$14\r\nkey_spec_index\r\n:0\r\n"),
      std::string::npos);
  EXPECT_NE(
      set.find("%5\r\n$4\r\nname\r\n$9\r\ncondition\r\n$4\r\ntype\r\n$5\r\noneof\r\n$5\r\nsince\r\n$6\r\n"
               "2.6.12\r\n$5\r\nflags\r\n~1\r\n+optional\r\n$9\r\narguments\r\n*2\r\n%3\r\n$4\r\nname\r\n"
               "$2\r\nnx\r\n$4\r\ntype\r\n$10\r\npure-token\r\n$5\r\ntoken\r\n$2\r\nNX\r\n"),
      std::string::npos);
}

// Claim: keys are where the row says, and a call that lacks them has none.
TEST(CommandDocs, keys_are_found_in_calls) {
  using Keys = std::vector<std::string_view>;
  const std::string_view mset[] = {"mset", "a", "1", "b", "2"};
  EXPECT_EQ(keys_of(*row_of("mset"), mset), (Keys{"a", "b"}));
  const std::string_view usage[] = {"memory", "usage", "k", "samples", "5"};
  EXPECT_EQ(keys_of(*row_called_by(usage), usage), Keys{"k"});
  EXPECT_EQ(keys_of(*row_called_by(usage), Words(usage).first(2)), Keys{});
  const std::string_view set[] = {"set", "k", "v", "Get"};
  EXPECT_EQ(key_flags_of(*row_of("set"), set, 0), (Keys{"RW", "access", "update"}));
  EXPECT_EQ(key_flags_of(*row_of("set"), Words(set).first(3), 0), (Keys{"OW", "update"}));
}

}  // namespace
}  // namespace refract::doors::redis
