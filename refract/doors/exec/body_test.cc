// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/exec/body.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/units.h"
#include "refract/doors/exec/body_commands.h"

namespace refract::doors::redis {
namespace {

constexpr uint64_t kBodyNow_ns = 1'000'000 * kSecond_ns;

// Commands over a store that is a map.
class BodyTest : public testing::Test {
 protected:
  struct Value {
    std::string bytes;
    uint64_t version = 1;
    uint64_t expires_wall_ns = 0;
  };

  // One pass; the replies of all commands.
  std::string pass(const std::vector<std::vector<std::string_view>>& commands) {
    Replies replies;
    body_.begin(kBodyNow_ns);
    for (const auto& words : commands) {
      const Row* const row = row_of(words.front());
      if (row == nullptr || row->in_body == nullptr) {
        ADD_FAILURE() << words.front();
        continue;
      }
      BodyCall call{.body = body_, .row = *row, .words = words, .reply = {replies, Protocol::kResp2}};
      row->in_body(call);
    }
    ++passes_;
    return replies.text();
  }
  // Until all that they need is read.
  std::string run(const std::vector<std::vector<std::string_view>>& commands) {
    for (;;) {
      std::string replies = pass(commands);
      if (!body_.lacks()) return replies;
      read();
    }
  }
  void read() {
    for (Body::Entry& entry : body_.entries()) {
      if (entry.known >= entry.needed) continue;
      const auto found = store_.find(entry.key);
      if (found != store_.end()) {
        entry.version = found->second.version;
        entry.value_bytes = found->second.bytes.size();
        entry.expires_wall_ns = found->second.expires_wall_ns;
        if (entry.needed == Body::Depth::kValue) entry.value = found->second.bytes;
      }
      body_.is_read(entry);
    }
  }
  const Body::Entry& entry(std::string_view key) {
    const Body::Entry* const found = body_.find(key);
    if (found == nullptr) ADD_FAILURE() << key;
    static const Body::Entry kNone;
    return found == nullptr ? kNone : *found;
  }

  std::map<std::string, Value, std::less<>> store_;
  Body body_;
  int passes_ = 0;
};

TEST_F(BodyTest, commands_see_what_those_before_them_have_made) {
  store_["n"] = {.bytes = "41", .version = 7};
  EXPECT_EQ(run({{"incr", "n"}, {"get", "n"}, {"append", "n", "!"}, {"incr", "n"}, {"strlen", "n"}}),
            ":42\r\n$2\r\n42\r\n:3\r\n-ERR value is not an integer or out of range\r\n:3\r\n");
  EXPECT_EQ(passes_, 2);
  EXPECT_EQ(entry("n").wrote, Body::Wrote::kPut);
  EXPECT_EQ(entry("n").new_value(), "42!");
  EXPECT_EQ(body_.version_seen(entry("n")), 7u);
}

TEST_F(BodyTest, a_key_that_is_written_first_is_not_read) {
  store_["k"] = {.bytes = "before"};
  EXPECT_EQ(run({{"set", "k", "1"}, {"incr", "k"}, {"get", "k"}, {"mset", "a", "x", "b", "y"}}),
            "+OK\r\n:2\r\n$1\r\n2\r\n+OK\r\n");
  EXPECT_EQ(passes_, 1);
  for (const std::string_view key : {"k", "a", "b"}) EXPECT_FALSE(entry(key).is_used) << key;
}

TEST_F(BodyTest, no_more_is_read_than_is_asked_for) {
  store_["k"] = {.bytes = std::string(1000, 'v')};
  EXPECT_EQ(
      run({{"exists", "k", "none"}, {"strlen", "k"}, {"ttl", "k"}, {"type", "none"}, {"setnx", "k", "x"}}),
      ":1\r\n:1000\r\n:-1\r\n+none\r\n:0\r\n");
  EXPECT_EQ(entry("k").known, Body::Depth::kHead);
  EXPECT_TRUE(entry("k").value.empty());
  EXPECT_EQ(entry("k").wrote, Body::Wrote::kNothing);
  EXPECT_EQ(run({{"exists", "k"}, {"get", "k"}}).size(), 4 + 7 + 1000 + 2u);
  EXPECT_EQ(entry("k").known, Body::Depth::kValue);
}

// What the copy says decides which keys are needed, so one is known a pass later.
TEST_F(BodyTest, what_is_needed_may_depend_on_what_is_read) {
  store_["a"] = {.bytes = "of a"};
  store_["b"] = {.bytes = "of b"};
  EXPECT_EQ(
      run({{"copy", "a", "c"}, {"renamenx", "c", "b"}, {"rename", "c", "d"}, {"get", "d"}, {"get", "c"}}),
      ":1\r\n:0\r\n+OK\r\n$4\r\nof a\r\n$-1\r\n");
  EXPECT_EQ(entry("c").wrote, Body::Wrote::kErased);
  EXPECT_EQ(body_.version_seen(entry("c")), 0u);
  EXPECT_EQ(entry("d").new_value(), "of a");
}

TEST_F(BodyTest, what_is_over_is_absent_for_all_commands_and_for_the_commit) {
  store_["over"] = {.bytes = "v", .version = 3, .expires_wall_ns = kBodyNow_ns};
  store_["lasts"] = {.bytes = "v", .version = 4, .expires_wall_ns = kBodyNow_ns + kMillisecond_ns};
  EXPECT_EQ(run({{"get", "over"}, {"exists", "over"}, {"get", "lasts"}, {"pttl", "lasts"}}),
            "$-1\r\n:0\r\n$1\r\nv\r\n:1\r\n");
  EXPECT_EQ(body_.version_seen(entry("over")), 0u);
  EXPECT_EQ(body_.version_seen(entry("lasts")), 4u);
  // So is what a command has given a moment that is over.
  EXPECT_EQ(run({{"set", "k", "v", "pxat", "1"}, {"get", "k"}, {"expire", "lasts", "-1"}, {"del", "lasts"}}),
            "+OK\r\n$-1\r\n:1\r\n:0\r\n");
  EXPECT_TRUE(body_.is_born_over(entry("k")));
  EXPECT_EQ(entry("lasts").wrote, Body::Wrote::kErased);
}

TEST_F(BodyTest, times_to_live_stay_or_go_as_the_command_says) {
  const uint64_t moment_ns = kBodyNow_ns + 100 * kSecond_ns;
  for (const char* const key : {"a", "b", "c", "d", "e"}) {
    store_[key] = {.bytes = "1", .expires_wall_ns = moment_ns + 1};
  }
  EXPECT_EQ(run({{"incr", "a"},
                 {"set", "b", "2"},
                 {"set", "c", "2", "keepttl"},
                 {"persist", "d"},
                 {"rename", "e", "f"}}),
            ":2\r\n+OK\r\n+OK\r\n:1\r\n+OK\r\n");
  for (const char* const key : {"a", "c", "f"}) EXPECT_EQ(entry(key).new_expires_wall_ns, moment_ns) << key;
  for (const char* const key : {"b", "d"}) EXPECT_EQ(entry(key).new_expires_wall_ns, 0u) << key;
  EXPECT_EQ(run({{"ttl", "a"}, {"expire", "a", "200", "gt"}, {"ttl", "a"}, {"expire", "a", "100", "gt"}}),
            ":100\r\n:1\r\n:200\r\n:0\r\n");
}

TEST_F(BodyTest, a_new_attempt_reads_again_what_the_last_one_has_needed) {
  store_["n"] = {.bytes = "1", .version = 1};
  EXPECT_EQ(run({{"incr", "n"}}), ":2\r\n");
  store_["n"] = {.bytes = "10", .version = 2};
  body_.forget_reads();
  EXPECT_TRUE(body_.lacks());
  read();
  passes_ = 0;
  EXPECT_EQ(run({{"incr", "n"}}), ":11\r\n");
  EXPECT_EQ(passes_, 1);
  EXPECT_EQ(body_.version_seen(entry("n")), 2u);
}

TEST_F(BodyTest, what_is_made_is_bounded) {
  const std::string part(Body::kBytesMax / 2, 'v');
  EXPECT_EQ(run({{"append", "a", part}, {"append", "a", part}}).front(), ':');
  EXPECT_FALSE(body_.is_too_large());
  (void)run({{"append", "a", part}, {"append", "a", part}, {"append", "b", "x"}});
  EXPECT_TRUE(body_.is_too_large());
  (void)run({{"setrange", "a", "536870000", "x"}, {"del", "a"}});
  EXPECT_TRUE(body_.is_too_large());
  EXPECT_EQ(run({{"append", "a", part},
                 {"del", "a"},
                 {"append", "b", part},
                 {"set", "b", "x"},
                 {"append", "c", part}})
                .front(),
            ':');
  EXPECT_FALSE(body_.is_too_large());
}

TEST(BodyCommands, each_is_that_of_a_row) {
  for (const BodyCommand& command : body_commands()) {
    const Row* const row = row_of(command.name);
    ASSERT_NE(row, nullptr) << command.name;
    EXPECT_EQ(row->in_body, command.run) << command.name;
  }
}

// A new command of keys has to say whether it may be queued. Channels are no keys.
TEST(BodyCommands, commands_of_keys_have_one) {
  for (const Row& row : rows()) {
    if (row.first_key == 0 || row.name == "lcs" || row.name == "watch") continue;
    if (row.flags.starts_with("pubsub")) continue;
    EXPECT_NE(row.in_body, nullptr) << row.name;
  }
}

}  // namespace
}  // namespace refract::doors::redis
