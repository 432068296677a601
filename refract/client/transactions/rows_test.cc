// SPDX-License-Identifier: Apache-2.0
// Rows of batches (docs/design/079-rows-of-batches.md) against real nodes: codes and answers by several ways,
// from one shard and from three, and beside kills.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "refract/base/units.h"
#include "refract/client/client.h"
#include "refract/client/testing/test_node.h"
#include "refract/kv/functions/functions.h"

namespace refract::rows_test {
namespace {

using test::needed;
using test::TestNode;

constexpr auto kAdd = static_cast<uint8_t>(kv::functions::Function::kAdd);
constexpr auto kAppend = static_cast<uint8_t>(kv::functions::Function::kAppend);
constexpr auto kPersist = static_cast<uint8_t>(kv::functions::Function::kPersist);

std::string word(int64_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}
int64_t number_in(std::string_view answer) {
  int64_t number = 0;
  EXPECT_EQ(answer.size(), sizeof(number));
  std::memcpy(&number, answer.data(), std::min(answer.size(), sizeof(number)));
  return number;
}

struct Way {
  std::string name;
  std::string shards;
  bool tcp = false;
  bool has_log = false;
};
void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name;
}

class Rows : public testing::TestWithParam<Way> {
 protected:
  [[nodiscard]] static std::vector<std::string> flags(const std::string& folder) {
    std::vector<std::string> flags{"--server-shards", GetParam().shards,  "--memory-limit",
                                   "384MiB",          "--listen-address", "127.0.0.1:0"};
    if (GetParam().has_log)
      flags.insert(flags.end(), {"--data-durability", "always", "--data-folder", folder});
    return flags;
  }
  test::TemporaryFolder folder_;
  TestNode node_{flags(folder_.path())};
  Client client_ = TestNode::connect_to(GetParam().tcp ? "tcp:" + node_.tcp() : node_.socket(), {});
};
INSTANTIATE_TEST_SUITE_P(AllWays, Rows,
                         testing::Values(Way{.name = "One", .shards = "1"},
                                         Way{.name = "Shards", .shards = "3"},
                                         Way{.name = "OneTcp", .shards = "1", .tcp = true},
                                         Way{.name = "ShardsTcp", .shards = "3", .tcp = true},
                                         Way{.name = "OneLog", .shards = "1", .has_log = true},
                                         Way{.name = "ShardsLog", .shards = "3", .has_log = true}),
                         [](const auto& way) { return way.param.name; });

TEST_P(Rows, answer_for_themselves_and_the_others_happen) {
  ASSERT_TRUE(client_.put("text", "t"));
  const uint64_t version = needed(client_.put("watched", "1"));
  Batch batch;
  batch.if_version("watched", version);
  for (int i = 0; i < 12; ++i) batch.run("n" + std::to_string(i), kAdd, word(i + 1));
  batch.run("text", kAdd, word(1)).run("log", kAppend, "entry").run("none", kPersist, "");
  batch.put("plain", "1").erase("absent").put_if("lock", "me", {.if_absent = true});
  batch.put_if("text", "other", {.if_absent = true}).put_if("missing", "1", {.if_present = true});
  ASSERT_EQ(client_.commit(batch).code(), Code::kInvalidArgument) << "text is written twice";
  EXPECT_EQ(batch.failed(), 1U + 12 + 6);
  batch.clear();
  batch.if_version("watched", version);
  for (int i = 0; i < 12; ++i) batch.run("n" + std::to_string(i), kAdd, word(i + 1));
  batch.run("text", kAdd, word(1)).run("log", kAppend, "entry").run("none", kPersist, "");
  batch.put("plain", "1").erase("absent").put_if("lock", "me", {.if_absent = true});
  batch.put_if("watched", "2", {.if_absent = true}).put_if("missing", "1", {.if_present = true});
  ASSERT_TRUE(client_.commit(batch));
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(batch.code(i), Code::kOk);
    EXPECT_EQ(number_in(batch.answer(i)), static_cast<int64_t>(i + 1));
    EXPECT_EQ(needed(client_.get("n" + std::to_string(i))), std::to_string(i + 1));
    EXPECT_EQ(needed(client_.exists("n" + std::to_string(i))).version, batch.version(i));
  }
  EXPECT_EQ(batch.code(12), Code::kInvalidArgument);
  EXPECT_EQ(batch.answer(12), "\1") << "no integer";
  EXPECT_EQ(number_in(batch.answer(13)), 5);
  EXPECT_EQ(batch.answer(14), std::string(1, '\0'));
  EXPECT_EQ(batch.code(15), Code::kOk);
  EXPECT_EQ(batch.code(16), Code::kNotFound);
  EXPECT_EQ(batch.code(17), Code::kOk);
  EXPECT_EQ(batch.code(18), Code::kExists);
  EXPECT_EQ(batch.code(19), Code::kNotFound);
  EXPECT_EQ(needed(client_.get("text")), "t");
  EXPECT_EQ(needed(client_.exists("watched")).version, version);
  EXPECT_EQ(client_.get("missing").code(), Code::kNotFound);
  // Where the watched one has changed, nothing happens, whatever the rows would have said.
  ASSERT_TRUE(client_.put("watched", "3"));
  const Code code = client_.commit(batch).code();
  EXPECT_EQ(code, Code::kVersionMismatch);
  EXPECT_EQ(batch.failed(), 0U);
  EXPECT_EQ(needed(client_.get("log")), "entry");
}

TEST_P(Rows, that_the_node_cannot_run_refuse_the_batch_and_are_named) {
  ASSERT_TRUE(client_.put("long", std::string(kMiB, 'l')));
  Batch batch;
  batch.put("a", "1").put("b", "1").run("long", kAppend, "x");
  EXPECT_EQ(client_.commit(batch).code(), Code::kTooLarge);
  EXPECT_EQ(batch.failed(), 2U);
  Batch nonsense;
  nonsense.put("a", "1").run("n", kAdd, "one");
  EXPECT_EQ(client_.commit(nonsense).code(), Code::kInvalidArgument);
  EXPECT_EQ(nonsense.failed(), 1U);
  EXPECT_EQ(client_.get("a").code(), Code::kNotFound);
  EXPECT_EQ(client_.get("b").code(), Code::kNotFound);
}

TEST(RowsOverShards, take_one_message_more_and_no_round_trip) {
  TestNode node({"--server-shards", "3", "--memory-limit", "384MiB"});
  Client client = node.connect();
  Batch batch;
  for (int i = 0; i < 40; ++i) batch.run("key " + std::to_string(i), kAdd, word(1));
  // The first one asks for words.
  ASSERT_TRUE(client.commit(batch));
  const uint64_t before = client.counters().messages_sent;
  ASSERT_TRUE(client.commit(batch));
  EXPECT_EQ(client.counters().messages_sent - before, 3U + 1U + 3U) << "prepare, decide, settle";
  EXPECT_EQ(number_in(batch.answer(0)), 2);
}

// Each commit that is told has all its answers, also where the one to its decision was lost: those of several
// shards are there before it. All keys are added to at once, so that they say the same.
TEST(RowsOverShards, count_exactly_beside_kills_of_the_server) {
  TestNode node({"--server-shards", "2", "--memory-limit", "256MiB", "--restart-backoff", "0ns"});
  Client client = node.connect({.timeout_ns = 20 * kSecond_ns});
  constexpr size_t kKeys = 6;
  int64_t told = 0;
  int64_t unknown = 0;
  for (int round = 1; round <= 12; ++round) {
    const pid_t server = test::server_of(client);
    std::thread killer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(round));
      kill(server, SIGKILL);
    });
    for (int i = 0; i < 150; ++i) {
      Batch batch;
      for (size_t k = 0; k < kKeys; ++k) batch.run("n" + std::to_string(k), kAdd, word(1));
      const Result<> done = client.commit(batch);
      ASSERT_TRUE(done || done.code() == Code::kIndeterminate) << text(done.code());
      unknown += done ? 0 : 1;
      if (!done) continue;
      ++told;
      for (size_t k = 0; k < kKeys; ++k) {
        ASSERT_EQ(batch.code(k), Code::kOk);
        const int64_t answer = number_in(batch.answer(k));
        ASSERT_GE(answer, told);
        ASSERT_LE(answer, told + unknown);
        ASSERT_EQ(answer, number_in(batch.answer(0)));
      }
    }
    killer.join();
    for (size_t k = 0; k < kKeys; ++k) {
      const int64_t count = std::stoll(needed(client.get("n" + std::to_string(k))));
      EXPECT_GE(count, told);
      EXPECT_LE(count, told + unknown);
    }
  }
  EXPECT_GT(told, 1'000);
}

}  // namespace
}  // namespace refract::rows_test
