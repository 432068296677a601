// SPDX-License-Identifier: Apache-2.0
// The coroutine form, against a real node.
#include "refract/client/async_client.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/units.h"
#include "refract/client/test_node.h"

namespace refract::client {
namespace {

using runtime::Shard;
using runtime::Task;
using test::TestNode;
using test::value_of;

constexpr uint64_t kPatience_ns = 60 * kSecond_ns;

class AsyncClientTest : public testing::TestWithParam<Paths> {
 protected:
  void SetUp() override {
    auto connected = block_on(
        shard_,
        AsyncClient::connect(shard_, node_.socket(), {.timeout_ns = kPatience_ns, .paths = GetParam()}));
    ASSERT_TRUE(connected.has_value()) << connected.error().to_string();
    client_ = std::move(*connected);
  }

  TestNode node_;
  Shard shard_{system_clock()};
  std::unique_ptr<AsyncClient> client_;
};

INSTANTIATE_TEST_SUITE_P(BothPaths, AsyncClientTest, testing::Values(Paths::kAuto, Paths::kRpc),
                         [](const auto& path) { return path.param == Paths::kAuto ? "Direct" : "Rpc"; });

Task<bool> put_and_get(AsyncClient& client, std::string key, std::string value) {
  const auto version = co_await client.put(key, value);
  if (!version) co_return false;
  std::string back;
  const auto got = co_await client.get(key, back);
  if (!got || back != value || got->version != *version) co_return false;
  std::vector<std::byte> room(value.size());
  const auto into = co_await client.get_into(key, room);
  const auto there = co_await client.exists(key);
  co_return into.has_value() && Bytes(std::span<const std::byte>(room)).text() == value&& there.has_value() &&
      there->version == *version;
}

TEST_P(AsyncClientTest, get_returns_what_put_stored) {
  for (const size_t bytes : std::initializer_list<size_t>{0, 1, 64, 5'000, 70'000, 2'000'000}) {
    EXPECT_TRUE(block_on(shard_, put_and_get(*client_, "key", value_of(bytes, bytes)))) << bytes;
  }
}

Task<> put_many(AsyncClient& client, int from, int& failed) {
  for (int i = from; i < from + 100; ++i) {
    const std::string key = "many/" + std::to_string(i);
    const auto put = co_await client.put(key, key);
    failed += put.has_value() ? 0 : 1;
  }
}

TEST_P(AsyncClientTest, many_operations_are_under_way_at_once) {
  int failed = 0;
  for (int task = 0; task < 50; ++task) shard_.spawn(put_many(*client_, task * 100, failed));
  ASSERT_TRUE(
      shard_.run_until([&] { return shard_.gate().count() == 0; }, shard_.refresh_now() + kPatience_ns));
  EXPECT_EQ(failed, 0);
  size_t seen = 0;
  uint64_t cursor = 0;
  do {
    const auto page = block_on(shard_, client_->scan(cursor));
    ASSERT_TRUE(page.has_value());
    seen += page->entries.size();
    cursor = page->next;
  } while (cursor != 0);
  EXPECT_GE(seen, 5'000U);
  EXPECT_TRUE(block_on(shard_, client_->ping()).has_value());
  EXPECT_GE(block_on(shard_, client_->stat())->entries, 5'000U);
}

TEST_P(AsyncClientTest, outcomes_are_those_of_the_contract) {
  std::string back;
  AsyncClient::Get get = client_->get("", back);
  ASSERT_TRUE(get.await_ready());
  EXPECT_EQ(get.await_resume().code(), Code::kInvalidArgument);
  EXPECT_EQ(block_on(shard_, client_->exists("none")).code(), Code::kNotFound);
  EXPECT_EQ(block_on(shard_, client_->erase("none")).code(), Code::kNotFound);
  EXPECT_TRUE(block_on(shard_, client_->put("once", "1", {.if_absent = true})).has_value());
  EXPECT_EQ(block_on(shard_, client_->put("once", "2", {.if_absent = true})).code(), Code::kExists);
  std::vector<PutItem> items(2);
  items[0] = {.key = "once", .value = "3", .options = {.if_absent = true}};
  items[1] = {.key = "twice", .value = "4"};
  block_on(shard_, client_->multi_put(items));
  EXPECT_EQ(items[0].result.code(), Code::kExists);
  EXPECT_TRUE(items[1].result.has_value());
}

TEST_P(AsyncClientTest, a_direct_get_is_ready_at_once_and_sends_nothing) {
  ASSERT_TRUE(block_on(shard_, client_->put("key", "value")).has_value());
  const uint64_t before = client_->messages_sent();
  std::string back;
  AsyncClient::Get get = client_->get("key", back);
  EXPECT_EQ(get.await_ready(), GetParam() == Paths::kAuto);
  if (GetParam() == Paths::kRpc) return;
  EXPECT_TRUE(get.await_resume().has_value());
  EXPECT_EQ(back, "value");
  EXPECT_EQ(client_->messages_sent(), before);
}

Task<Code> put_until_it_counts(AsyncClient& client) {
  Code code = Code::kIndeterminate;
  while (code == Code::kIndeterminate) {
    const auto put = co_await client.put("after", "the server");
    code = put.code();
  }
  co_return code;
}

TEST_P(AsyncClientTest, a_put_outlives_the_server_and_the_client_finds_the_next_node) {
  for (int kill = 0; kill < 3; ++kill) {
    (void)::kill(static_cast<pid_t>(client_->route().server_pid), SIGKILL);
    EXPECT_EQ(block_on(shard_, put_until_it_counts(*client_)), Code::kOk);
  }
  node_.end(SIGKILL);
  Code code = Code::kOk;
  for (int i = 0; i < 10 && code != Code::kUnavailable; ++i) {
    code = block_on(shard_, client_->put("key", "lost")).code();
  }
  EXPECT_EQ(code, Code::kUnavailable);
  EXPECT_NE(client_->trouble().what.find(node_.socket()), std::string::npos);
  node_.start();
  EXPECT_TRUE(block_on(shard_, put_and_get(*client_, "key", "found")));
}

TEST(AsyncClientConnect, where_nobody_answers_the_report_names_the_path) {
  Shard shard(system_clock());
  const auto client = block_on(shard, AsyncClient::connect(shard, "/tmp/refract-nobody/node.sock"));
  ASSERT_FALSE(client.has_value());
  EXPECT_NE(client.error().what.find("/tmp/refract-nobody/node.sock"), std::string::npos);
}

}  // namespace
}  // namespace refract::client
