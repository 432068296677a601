// SPDX-License-Identifier: Apache-2.0
// The coroutine form, against a real node.
#include "refract/client/async_client.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/units.h"
#include "refract/client/testing/test_node.h"

namespace refract::client {
namespace {

using runtime::Shard;
using runtime::Task;
using test::TestNode;
using test::value_of;

constexpr uint64_t kPatience_ns = 60 * kSecond_ns;

struct Way {
  std::string name;
  Paths paths = Paths::kAuto;
  bool tcp = false;
  int shards = 1;
  const char* copies = "0";
  // Where the keys go by their slots, the others would have some of them.
  const char* list = "version=3,b=h:2,a=[::1]:1";
};
constexpr const char* kItselfAlone = "version=3,b=h:2";
void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name;
}

class AsyncClientTest : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    const std::string address = GetParam().tcp ? "tcp:" + node_.tcp() : node_.socket();
    auto connected = block_on(
        shard_,
        AsyncClient::connect(shard_, address, {.timeout_ns = kPatience_ns, .paths = GetParam().paths}));
    ASSERT_TRUE(connected.has_value()) << connected.error().to_string();
    client_ = std::move(*connected);
  }
  [[nodiscard]] static bool is_direct() { return !GetParam().tcp && GetParam().paths == Paths::kAuto; }

  TestNode node_{{"--listen-address", "127.0.0.1:0", "--server-shards", std::to_string(GetParam().shards),
                  "--kv-copies", GetParam().copies, "--cluster-nodes", GetParam().list, "--cluster-self",
                  "b"}};
  Shard shard_{system_clock()};
  std::unique_ptr<AsyncClient> client_;
};

INSTANTIATE_TEST_SUITE_P(
    AllWays, AsyncClientTest,
    testing::Values(Way{.name = "Direct"}, Way{.name = "Rpc", .paths = Paths::kRpc},
                    Way{.name = "Tcp", .tcp = true}, Way{.name = "DirectShards", .shards = 3},
                    Way{.name = "TcpShards", .tcp = true, .shards = 3},
                    Way{.name = "DirectSlots", .shards = 3, .copies = "1", .list = kItselfAlone},
                    Way{.name = "TcpSlots", .tcp = true, .shards = 3, .copies = "1", .list = kItselfAlone},
                    Way{.name = "Chain", .paths = Paths::kChain},
                    Way{.name = "ChainTcp", .paths = Paths::kChain, .tcp = true}),
    [](const auto& way) { return way.param.name; });

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

TEST_P(AsyncClientTest, members_are_those_of_the_node) {
  const auto told = block_on(shard_, client_->members());
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->version, 3U);
  ASSERT_EQ(told->members.size(), GetParam().list == kItselfAlone ? 1U : 2U);
  EXPECT_EQ(told->members.back().name, "b");
  EXPECT_EQ(told->members.back().address, "h:2");
  EXPECT_EQ(told->self, told->members.size() - 1);
  if (told->self == 0) return;
  EXPECT_EQ(told->members[0].name, "a");
  EXPECT_EQ(told->members[0].address, "[::1]:1");
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

TEST_P(AsyncClientTest, many_keys_are_got_at_once_and_each_has_its_own_outcome) {
  std::vector<std::string> keys;
  std::vector<PutItem> puts;
  std::vector<GetItem> gets;
  for (int i = 0; i < 300; ++i) keys.push_back("many/" + std::to_string(i));
  for (const std::string& key : keys) {
    puts.push_back({.key = key, .value = key});
    gets.push_back({.key = key});
  }
  gets.push_back({.key = "none"});
  gets.push_back({.key = ""});
  block_on(shard_, client_->multi_put(puts));
  const uint64_t before = client_->messages_sent();
  block_on(shard_, client_->multi_get(gets));
  if (GetParam().paths == Paths::kChain) {
    // Nothing was seen before: two for each that is there.
    EXPECT_GE(client_->messages_sent() - before, 601U);
  } else {
    // Sixteen keys a call, of each shard.
    EXPECT_LE(client_->messages_sent() - before, is_direct() ? 0U : 301U / 16 + 5);
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_TRUE(puts[i].result.has_value());
    ASSERT_TRUE(gets[i].result.has_value()) << i;
    EXPECT_EQ(gets[i].value, keys[i]);
  }
  EXPECT_EQ(gets[300].result.code(), Code::kNotFound);
  EXPECT_EQ(gets[301].result.code(), Code::kInvalidArgument);
}

TEST_P(AsyncClientTest, a_view_shows_the_value_of_its_moment) {
  for (const size_t bytes : std::initializer_list<size_t>{5, 5'000}) {
    const std::string value(bytes, 'v');
    ASSERT_TRUE(block_on(shard_, client_->put("key", value)).has_value());
    const auto view = block_on(shard_, client_->view("key"));
    ASSERT_TRUE(view.has_value());
    ASSERT_TRUE(block_on(shard_, client_->put("key", "other")).has_value());
    EXPECT_EQ(view->text(), value);
    EXPECT_EQ(view->is_copy(), !is_direct() || bytes <= View::kOwnBytes);
  }
  EXPECT_EQ(block_on(shard_, client_->view("none")).code(), Code::kNotFound);
}

TEST_P(AsyncClientTest, a_direct_get_is_ready_at_once_and_sends_nothing) {
  ASSERT_TRUE(block_on(shard_, client_->put("key", "value")).has_value());
  const uint64_t before = client_->messages_sent();
  std::string back;
  AsyncClient::Get get = client_->get("key", back);
  EXPECT_EQ(get.await_ready(), is_direct());
  if (!is_direct()) return;
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
  Client watcher = node_.connect({.timeout_ns = kPatience_ns});
  for (int kill = 0; kill < 3; ++kill) {
    (void)::kill(test::server_of(watcher), SIGKILL);
    EXPECT_EQ(block_on(shard_, put_until_it_counts(*client_)), Code::kOk);
    ASSERT_TRUE(watcher.ping().has_value());
  }
  // The next node listens at another port, of which the client is not told.
  if (GetParam().tcp) return;
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
  const auto client = block_on(shard, AsyncClient::connect(shard, "/tmp/refract-nothing/node.sock"));
  ASSERT_FALSE(client.has_value());
  EXPECT_NE(client.error().what.find("/tmp/refract-nothing/node.sock"), std::string::npos);
}

}  // namespace
}  // namespace refract::client
