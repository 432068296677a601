// SPDX-License-Identifier: Apache-2.0
// Erasing all entries of a real node, while its server is killed again and again, and while others write.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/units.h"
#include "refract/client/async_client.h"
#include "refract/client/testing/test_node.h"

namespace refract::client::clear_test {
namespace {

using refract::test::server_of;
using refract::test::TemporaryFolder;
using refract::test::TestNode;
using runtime::Shard;
using runtime::Task;

constexpr uint64_t kPatience_ns = 60 * kSecond_ns;

struct Way {
  std::string name;
  std::vector<std::string> flags;
  bool is_over_tcp = false;
};
void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name;
}

std::string key_of(std::string_view kind, uint64_t number) {
  return std::string(kind) + " " + std::to_string(number);
}

void put_many(Client& client, std::string_view kind, uint64_t count) {
  std::vector<std::string> keys;
  keys.reserve(count);
  for (uint64_t i = 0; i < count; ++i) keys.push_back(key_of(kind, i));
  std::vector<PutItem> items;
  items.reserve(count);
  for (const std::string& key : keys) items.push_back({.key = key, .value = kind});
  client.multi_put(items);
  for (const PutItem& item : items) ASSERT_TRUE(item.result.has_value()) << text(item.result.code());
}

class Clearing : public testing::TestWithParam<Way> {
 protected:
  Clearing() {
    std::vector<std::string> flags = {"--restart-backoff", "0ns"};
    flags.insert(flags.end(), GetParam().flags.begin(), GetParam().flags.end());
    flags.insert(flags.end(), {"--data-folder", folder.path() + "/data"});
    node = std::make_unique<TestNode>(flags);
  }
  void TearDown() override { shard.drop_tasks(); }

  TemporaryFolder folder;
  std::unique_ptr<TestNode> node;
  Shard shard{system_clock()};
};

TEST_P(Clearing, takes_all_that_is_there_and_tells_how_much) {
  Client client = node->connect();
  put_many(client, "old", 5'000);
  const Result<uint64_t> erased = client.clear();
  ASSERT_TRUE(erased.has_value()) << text(erased.code());
  EXPECT_EQ(*erased, 5'000U);
  EXPECT_EQ(client.stat()->entries, 0U);
  EXPECT_EQ(client.clear().value_or(1), 0U) << "of nothing";
}

struct Work {
  AsyncClient& client;
  Result<uint64_t> cleared = fail(Code::kUnavailable);
  bool is_clear = false;
  std::vector<std::string> written = {};  // Behind the end.
  uint64_t put = 0;                       // At all.
  bool is_over = false;
};

Task<> clear(Work& work) {
  work.cleared = co_await work.client.clear();
  work.is_clear = true;
}

// What is acknowledged behind the end stays.
Task<> write(Work& work, uint64_t writer) {
  for (uint64_t i = 0; !work.is_over; ++i) {
    const std::string key = key_of("young", writer * 1'000'000 + i);
    const bool is_behind = work.is_clear;
    const Operated outcome = co_await work.client.operate(key, {.value = "young"});
    work.put += outcome.code == Code::kOk ? 1 : 0;
    if (is_behind && outcome.code == Code::kOk) work.written.push_back(key);
  }
}

// Each server lives for some steps; where it ends is chance. The memory stays, or comes back from the log.
TEST_P(Clearing, ends_across_kills_with_nothing_older_left_and_what_came_behind_it_there) {
  constexpr uint64_t kOld = 40'000;
  Client watching = node->connect();
  put_many(watching, "old", kOld);
  const std::string address = GetParam().is_over_tcp ? "tcp:" + node->tcp() : node->socket();
  auto client = runtime::block_on(shard, AsyncClient::connect(shard, address, {.timeout_ns = kPatience_ns}));
  ASSERT_TRUE(client.has_value());
  Work work{.client = **client};
  const auto comes_true = [this](auto done) {
    return shard.run_until(done, shard.refresh_now() + kPatience_ns);
  };
  for (uint64_t writer = 0; writer < 4; ++writer) shard.spawn(write(work, writer));
  shard.spawn(clear(work));
  uint64_t kills = 0;
  uint64_t kills_meanwhile = 0;
  bool is_well = true;
  while (is_well && (!work.is_clear || kills < 3)) {
    const uint64_t before = work.client.messages_sent();
    is_well = comes_true([&] { return work.client.messages_sent() > before + 30; });
    kills_meanwhile += work.is_clear ? 0 : 1;
    const pid_t killed = server_of(watching);
    is_well = is_well && ::kill(killed, SIGKILL) == 0;
    is_well =
        is_well && comes_true([&] { return server_of(watching) != killed && watching.ping().has_value(); });
    ++kills;
  }
  is_well = comes_true([&] { return work.written.size() > 100; }) && is_well;
  work.is_over = true;
  is_well = comes_true([&] { return shard.gate().count() == 0; }) && is_well;
  EXPECT_TRUE(is_well);
  EXPECT_TRUE(work.cleared.has_value()) << text(work.cleared.code());
  EXPECT_GT(kills_meanwhile, 0U) << "or nothing was shown";
  if (GetParam().name.starts_with("always")) {
    // And from the disk alone.
    node->kill_everything();
    node->start();
  }
  Client checking = node->connect();
  std::vector<std::string> keys;
  keys.reserve(kOld);
  for (uint64_t i = 0; i < kOld; ++i) keys.push_back(key_of("old", i));
  std::vector<ExistsItem> items;
  items.reserve(kOld);
  for (const std::string& key : keys) items.push_back({.key = key});
  checking.multi_exists(items);
  for (const ExistsItem& item : items) EXPECT_EQ(item.result.code(), Code::kNotFound) << item.key.text();
  for (const std::string& key : work.written)
    EXPECT_EQ(checking.get(key).value_or("nothing"), "young") << key;
}

INSTANTIATE_TEST_SUITE_P(
    Ways, Clearing,
    testing::Values(Way{.name = "shm", .flags = {}}, Way{.name = "shards", .flags = {"--server-shards", "3"}},
                    Way{.name = "always", .flags = {"--data-durability", "always"}},
                    Way{.name = "always_shards",
                        .flags = {"--data-durability", "always", "--server-shards", "3"}},
                    Way{.name = "tcp", .flags = {"--listen-address", "127.0.0.1:0"}, .is_over_tcp = true}),
    [](const auto& way) { return way.param.name; });

// Of shards that were at their end first nothing comes back where all is lost meanwhile.
TEST(ClearOfANode, that_is_lost_meanwhile_begins_again) {
  const TemporaryFolder folder;
  TestNode node({"--restart-backoff", "0ns", "--server-shards", "2", "--data-folder", folder.path() + "/data",
                 "--data-durability", "always"});
  Shard shard(system_clock());
  {
    Client client = node.connect();
    put_many(client, "old", 30'000);
  }
  auto client =
      runtime::block_on(shard, AsyncClient::connect(shard, node.socket(), {.timeout_ns = kPatience_ns}));
  ASSERT_TRUE(client.has_value());
  Work work{.client = **client};
  shard.spawn(clear(work));
  const auto comes_true = [&shard](auto done) {
    return shard.run_until(done, shard.refresh_now() + kPatience_ns);
  };
  const uint64_t sent = (*client)->messages_sent();
  ASSERT_TRUE(comes_true([&] { return (*client)->messages_sent() > sent + 40; }));
  ASSERT_FALSE(work.is_clear) << "or nothing was shown";
  node.kill_everything();
  node.start();
  ASSERT_TRUE(comes_true([&] { return work.is_clear; }));
  shard.drop_tasks();
  EXPECT_TRUE(work.cleared.has_value()) << text(work.cleared.code());
  EXPECT_EQ(node.connect().stat()->entries, 0U);
}

// A server that does not answer is not waited for longer than any other call.
TEST(ClearOfANode, that_stands_still_ends_in_time) {
  TestNode node({"--restart-backoff", "0ns"});
  Client client = node.connect({.timeout_ns = kSecond_ns});
  put_many(client, "old", 100);
  const pid_t server = server_of(client);
  ASSERT_EQ(::kill(server, SIGSTOP), 0);
  const Code code = client.clear().code();
  ASSERT_EQ(::kill(server, SIGCONT), 0);
  EXPECT_TRUE(code == Code::kDeadlineExceeded || code == Code::kUnavailable) << text(code);
}

}  // namespace
}  // namespace refract::client::clear_test
