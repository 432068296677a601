// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/exec/multi.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "refract/doors/exec/handlers.h"

namespace refract::doors::redis {
namespace {

TEST(Queue, keeps_copies_of_what_it_is_given) {
  Queue queue;
  std::string bytes = "setkeyvalue";
  const std::vector<std::string_view> words = {std::string_view(bytes).substr(0, 3),
                                               std::string_view(bytes).substr(3, 3),
                                               std::string_view(bytes).substr(6)};
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(queue.add(*row_of("set"), words));
  bytes.assign(bytes.size(), 'x');
  ASSERT_EQ(queue.commands().size(), 100u);
  for (const Queue::Command& command : queue.commands()) {
    EXPECT_EQ(command.words, (std::vector<std::string_view>{"set", "key", "value"}));
  }
  EXPECT_GE(queue.bytes(), 100 * bytes.size());
}

TEST(Queue, has_as_many_keys_as_a_transaction_may_have) {
  Queue queue;
  for (size_t i = 0; i < kTransactionKeysMax; ++i) {
    const std::string key = std::to_string(i);
    const std::string_view words[] = {"get", key};
    ASSERT_TRUE(queue.add(*row_of("get"), words));
    // The same ones again are no more.
    ASSERT_TRUE(queue.add(*row_of("get"), words));
  }
  const std::string_view words[] = {"mget", "0", "one more"};
  EXPECT_FALSE(queue.add(*row_of("mget"), words));
  EXPECT_TRUE(queue.is_refused());
  EXPECT_EQ(queue.bytes(), 0u);
  EXPECT_TRUE(queue.commands().empty());
}

TEST(Queue, is_bounded_in_bytes_and_in_commands_without_any) {
  Queue of_bytes;
  const std::string value(kTransactionBytesMax / 4, 'v');
  const std::string_view set[] = {"set", "k", value};
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(of_bytes.add(*row_of("set"), set));
  EXPECT_FALSE(of_bytes.add(*row_of("set"), set));
  Queue of_none;
  const std::string_view ping[] = {"ping"};
  size_t count = 0;
  while (of_none.add(*row_of("ping"), ping)) ++count;
  EXPECT_LT(count, kTransactionBytesMax / sizeof(Queue::Command) + 1);
  EXPECT_GT(count, 1000u);
}

TEST(Multi, keeps_keys_for_those_that_took_them_along) {
  Multi multi;
  const uint64_t first = multi.watch();
  EXPECT_EQ(multi.watch(), first) << "a second WATCH adds to the first";
  ASSERT_NE(multi.watched(first), nullptr);
  multi.watched(first)->versions.emplace("key", 7);
  multi.open();
  const Taken taken = multi.take();
  EXPECT_EQ(taken.watched, first);
  ASSERT_NE(taken.queue, nullptr);
  EXPECT_EQ(multi.queue(), nullptr);
  // What follows in the pipeline has another number, and forgets nothing of that EXEC.
  const uint64_t second = multi.watch();
  EXPECT_NE(second, first);
  multi.drop();
  EXPECT_EQ(multi.watched(second), nullptr);
  EXPECT_EQ(multi.take_watched(first).versions.at("key"), 7u);
  EXPECT_EQ(multi.watched(first), nullptr);
  EXPECT_TRUE(multi.take_watched(first).versions.empty());
  EXPECT_TRUE(multi.take_watched(0).versions.empty());
}

TEST(Multi, tells_one_that_still_looks_that_its_keys_are_forgotten) {
  Multi multi;
  const uint64_t number = multi.watch();
  multi.unwatch();
  EXPECT_EQ(multi.watched(number), nullptr);
  multi.open();
  EXPECT_EQ(multi.take().watched, 0u);
  EXPECT_NE(multi.watch(), number);
}

TEST(Queue, runs_beside_its_commit_what_has_no_part_in_the_store) {
  for (const char* const name : {"ping", "echo", "time", "select", "auth", "info", "publish"}) {
    EXPECT_TRUE(runs_beside_body(*row_of(name))) << name;
  }
  for (const char* const name :
       {"hello", "quit", "reset", "subscribe", "keys", "scan", "dbsize", "randomkey", "debug", "get"}) {
    EXPECT_FALSE(runs_beside_body(*row_of(name))) << name;
  }
  EXPECT_TRUE(runs_beside_body(*row_of_full_name("client|setname")));
  EXPECT_FALSE(runs_beside_body(*row_of_full_name("client|reply")));
  EXPECT_FALSE(runs_beside_body(*row_of_full_name("client|kill")));
}

}  // namespace
}  // namespace refract::doors::redis
