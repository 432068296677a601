// SPDX-License-Identifier: Apache-2.0
// The whole contract of a client, on both paths, against a real node.
#include "refract/client/client.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/units.h"
#include "refract/client/testing/test_node.h"
#include "refract/fabric/conformance/allocation_count.h"

namespace refract {
namespace {

using test::TestNode;
using test::value_of;

struct Way {
  std::string name;
  Paths paths = Paths::kAuto;
  bool tcp = false;
  int shards = 1;
  std::string copies = "0";
};
void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name;
}

class ClientContract : public testing::TestWithParam<Way> {
 protected:
  static void TearDownTestSuite() { nodes_.clear(); }
  // Nodes live as long as the suite: each test has keys of its own.
  [[nodiscard]] static TestNode& node() {
    auto& node = nodes_[{GetParam().shards, GetParam().copies}];
    if (node == nullptr) {
      node = std::make_unique<TestNode>(std::vector<std::string>{
          "--listen-address", "127.0.0.1:0", "--server-shards", std::to_string(GetParam().shards),
          "--kv-copies", GetParam().copies, "--memory-limit", GetParam().shards == 1 ? "192MiB" : "384MiB"});
    }
    return *node;
  }
  [[nodiscard]] static Client connect() {
    const std::string address = GetParam().tcp ? "tcp:" + node().tcp() : node().socket();
    return TestNode::connect_to(address, {.paths = GetParam().paths});
  }

  Client client_ = connect();

 private:
  using Nodes = std::map<std::pair<int, std::string>, std::unique_ptr<TestNode>>;
  static Nodes nodes_;
};
ClientContract::Nodes ClientContract::nodes_;

INSTANTIATE_TEST_SUITE_P(
    AllWays, ClientContract,
    testing::Values(
        Way{.name = "Direct"}, Way{.name = "Rpc", .paths = Paths::kRpc}, Way{.name = "Tcp", .tcp = true},
        Way{.name = "DirectShards", .shards = 3}, Way{.name = "RpcShards", .paths = Paths::kRpc, .shards = 3},
        Way{.name = "TcpShards", .tcp = true, .shards = 3},
        Way{.name = "DirectSlots", .shards = 3, .copies = "1"},
        Way{.name = "TcpSlots", .tcp = true, .shards = 3, .copies = "1"},
        Way{.name = "ChainTcpSlots", .paths = Paths::kChain, .tcp = true, .shards = 3, .copies = "1"},
        Way{.name = "Chain", .paths = Paths::kChain},
        Way{.name = "ChainTcp", .paths = Paths::kChain, .tcp = true},
        Way{.name = "ChainTcpShards", .paths = Paths::kChain, .tcp = true, .shards = 3}),
    [](const auto& way) { return way.param.name; });

TEST_P(ClientContract, get_returns_what_put_stored_whatever_the_lengths) {
  for (const size_t key_bytes : std::initializer_list<size_t>{1, 2, 16, 255, 4096, 65'535}) {
    for (const size_t value_bytes :
         std::initializer_list<size_t>{0, 1, 64, 4095, 4096, 16'384, 70'000, 3'000'000}) {
      const std::string key = value_of(key_bytes, key_bytes);
      const std::string value = value_of(value_bytes, value_bytes);
      const auto version = client_.put(key, value);
      ASSERT_TRUE(version.has_value()) << text(version.code());
      std::string back;
      const auto got = client_.get(key, back);
      ASSERT_TRUE(got.has_value()) << text(got.code()) << " " << key_bytes << " " << value_bytes;
      EXPECT_EQ(back, value);
      EXPECT_EQ(got->version, *version);
      EXPECT_EQ(got->value_bytes, value_bytes);
      EXPECT_EQ(got->expires_wall_ns, 0U);
    }
  }
}

TEST_P(ClientContract, a_string_that_is_used_again_gets_the_values_length) {
  std::string back;
  for (const size_t value_bytes :
       std::initializer_list<size_t>{200, 201, 358, 401, 0, 5'000, 9'000, 17'000, 30'000, 3}) {
    const std::string value = value_of(value_bytes, value_bytes);
    ASSERT_TRUE(client_.put("used again", value));
    ASSERT_TRUE(client_.get("used again", back));
    EXPECT_EQ(back, value);
  }
}

TEST_P(ClientContract, a_key_that_was_never_put_is_not_found) {
  EXPECT_EQ(client_.get("never put").code(), Code::kNotFound);
  EXPECT_EQ(client_.exists("never put").code(), Code::kNotFound);
  EXPECT_EQ(client_.erase("never put").code(), Code::kNotFound);
}

TEST_P(ClientContract, keys_and_values_beyond_the_limits_are_refused) {
  EXPECT_EQ(client_.get("").code(), Code::kInvalidArgument);
  EXPECT_EQ(client_.put("", "value").code(), Code::kInvalidArgument);
  EXPECT_EQ(client_.erase("").code(), Code::kInvalidArgument);
  EXPECT_EQ(client_.exists("").code(), Code::kInvalidArgument);
  const std::string long_key(65'536, 'k');
  EXPECT_EQ(client_.get(long_key).code(), Code::kTooLarge);
  EXPECT_EQ(client_.put(long_key, "value").code(), Code::kTooLarge);
  EXPECT_EQ(client_.put("both", "value", {.if_absent = true, .if_version = 1}).code(),
            Code::kInvalidArgument);
}

TEST_P(ClientContract, a_value_longer_than_the_node_is_no_space_and_leaves_the_old_one) {
  ASSERT_TRUE(client_.put("full", "old").has_value());
  const std::string huge(300U << 20, 'h');
  EXPECT_EQ(client_.put("full", huge).code(), Code::kNoSpace);
  const auto got = client_.get("full");
  ASSERT_TRUE(got.has_value());
  EXPECT_TRUE(*got == "old");
}

TEST_P(ClientContract, if_absent_puts_once) {
  (void)client_.erase("absent");
  const auto first = client_.put("absent", "first", {.if_absent = true});
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(client_.put("absent", "second", {.if_absent = true}).code(), Code::kExists);
  EXPECT_EQ(client_.get("absent").value(), "first");
}

TEST_P(ClientContract, if_version_replaces_only_that_version) {
  (void)client_.erase("version");
  EXPECT_EQ(client_.put("version", "x", {.if_version = 1}).code(), Code::kNotFound);
  const auto first = client_.put("version", "first");
  ASSERT_TRUE(first.has_value());
  const auto second = client_.put("version", "second", {.if_version = *first});
  ASSERT_TRUE(second.has_value());
  EXPECT_GT(*second, *first);
  EXPECT_EQ(client_.put("version", "third", {.if_version = *first}).code(), Code::kVersionMismatch);
  EXPECT_EQ(client_.erase("version", *first).code(), Code::kVersionMismatch);
  EXPECT_EQ(client_.get("version").value(), "second");
  EXPECT_TRUE(client_.erase("version", *second).has_value());
  EXPECT_EQ(client_.get("version").code(), Code::kNotFound);
}

TEST_P(ClientContract, an_entry_with_a_time_to_live_goes_by_itself) {
  ASSERT_TRUE(client_.put("stays a while", "value", {.ttl_ns = 3'600'000'000'000}).has_value());
  const auto got = client_.exists("stays a while");
  ASSERT_TRUE(got.has_value());
  EXPECT_GT(got->expires_wall_ns, 0U);
  EXPECT_EQ(client_.get("stays a while").value(), "value");
  ASSERT_TRUE(client_.put("goes", "value", {.ttl_ns = 20'000'000}).has_value());
  EXPECT_TRUE(test::becomes_true([&] { return client_.get("goes").code() == Code::kNotFound; }));
}

TEST_P(ClientContract, get_into_a_short_buffer_is_too_large) {
  ASSERT_TRUE(client_.put("into", "0123456789").has_value());
  std::array<std::byte, 10> room{};
  EXPECT_EQ(client_.get_into("into", std::span(room).first(9)).code(), Code::kTooLarge);
  const auto got = client_.get_into("into", room);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(Bytes(std::span<const std::byte>(room).first(got->value_bytes)).text(), "0123456789");
  ASSERT_TRUE(client_.put("empty", "").has_value());
  EXPECT_EQ(client_.get_into("empty", {})->value_bytes, 0U);
}

TEST_P(ClientContract, announcing_a_key_changes_nothing_but_the_time_of_its_get) {
  client_.announce("nothing is there yet");
  client_.announce("");
  client_.announce(std::string(70'000, 'k'));
  // Through the growth of a table, whose buckets move under what has been announced: direct reads alone make
  // something of that.
  const size_t keys = GetParam().paths == Paths::kAuto && !GetParam().tcp ? 3'000 : 500;
  for (size_t i = 0; i < keys; ++i) {
    const std::string key = "announced " + std::to_string(i);
    client_.announce("announced " + std::to_string(i + 5));
    EXPECT_EQ(client_.get(key).code(), Code::kNotFound);
    const auto put = client_.put(key, value_of(i % 200, i));
    ASSERT_TRUE(put.has_value()) << text(put.code()) << " " << i;
    client_.announce(key);
    client_.announce("announced " + std::to_string(i / 2));
    const auto value = client_.get(key);
    ASSERT_TRUE(value.has_value()) << i;
    EXPECT_EQ(*value, value_of(i % 200, i));
  }
  for (size_t i = 0; i < keys; ++i) ASSERT_TRUE(client_.erase("announced " + std::to_string(i)).has_value());
}

// Calls of one block of stages and of several, with keys of every kind.
TEST_P(ClientContract, many_of_any_number_have_their_outcomes) {
  constexpr size_t kKeys = 70;
  std::vector<std::string> keys;
  for (size_t i = 0; i < kKeys; ++i) {
    keys.push_back(i % 11 == 10 ? "" : i % 13 == 12 ? std::string(70'000, 'k') : "many " + std::to_string(i));
    if (i % 7 == 3 || keys[i].empty() || keys[i].size() > 100) continue;
    const PutOptions options{.ttl_ns = i % 5 == 4 ? 3'600 * kSecond_ns : 0};
    ASSERT_TRUE(client_.put(keys[i], value_of(i % 9 == 8 ? 20'000 : i, i), options)) << i;
  }
  for (const size_t count : std::initializer_list<size_t>{0, 1, 15, 16, 17, 24, 31, 32, 33, kKeys}) {
    std::vector<GetItem> items;
    for (size_t i = 0; i < count; ++i) items.push_back({.key = keys[i], .value = "what was there before"});
    client_.multi_get(items);
    for (size_t i = 0; i < count; ++i) {
      const Code expected = keys[i].empty()        ? Code::kInvalidArgument
                            : keys[i].size() > 100 ? Code::kTooLarge
                            : i % 7 == 3           ? Code::kNotFound
                                                   : Code::kOk;
      ASSERT_EQ(items[i].result.code(), expected) << i << " of " << count;
      if (expected != Code::kOk) continue;
      EXPECT_EQ(items[i].value, value_of(i % 9 == 8 ? 20'000 : i, i)) << i << " of " << count;
      EXPECT_EQ(items[i].result->value_bytes, items[i].value.size());
      EXPECT_EQ(items[i].result->expires_wall_ns != 0, i % 5 == 4);
    }
  }
}

TEST_P(ClientContract, a_view_shows_the_value_of_its_moment) {
  EXPECT_EQ(client_.view("viewed").code(), Code::kNotFound);
  EXPECT_EQ(client_.view("").code(), Code::kInvalidArgument);
  for (const size_t bytes : std::initializer_list<size_t>{0, 1, 5'000, 300'000}) {
    const std::string value = value_of(bytes, bytes);
    const auto version = client_.put("viewed", value);
    ASSERT_TRUE(version.has_value());
    const auto view = client_.view("viewed");
    ASSERT_TRUE(view.has_value()) << text(view.code());
    ASSERT_TRUE(client_.erase("viewed").has_value());
    EXPECT_EQ(view->text(), value);
    EXPECT_EQ(view->version(), *version);
    const bool is_far = GetParam().tcp || GetParam().paths != Paths::kAuto;
    EXPECT_EQ(view->is_copy(), is_far || bytes <= View::kOwnBytes);
  }
}

TEST_P(ClientContract, a_scan_gives_every_entry_and_every_page_is_followed_by_the_next) {
  std::vector<std::string> keys;
  std::vector<PutItem> items;
  for (int i = 0; i < 5'000; ++i) keys.push_back("scan/" + std::to_string(i));
  for (const std::string& key : keys) items.push_back({.key = key, .value = "v"});
  client_.multi_put(items);
  std::map<std::string, int> seen;
  uint64_t cursor = 0;
  do {
    const auto page = client_.scan(cursor, 100);
    ASSERT_TRUE(page.has_value()) << text(page.code());
    for (const ScanEntry& entry : page->entries) ++seen[entry.key];
    cursor = page->next;
  } while (cursor != 0);
  for (const std::string& key : keys) EXPECT_EQ(seen.count(key), 1U) << key;
}

TEST_P(ClientContract, each_item_of_many_has_its_own_outcome) {
  ASSERT_TRUE(client_.put("many/0", "old").has_value());
  std::vector<std::string> keys;
  for (int i = 0; i < 100; ++i) keys.push_back("many/" + std::to_string(i));
  for (int i = 1; i < 100; ++i) (void)client_.erase(keys[static_cast<size_t>(i)]);
  std::vector<PutItem> puts;
  for (const std::string& key : keys) {
    puts.push_back({.key = key, .value = key, .options = {.if_absent = true}});
  }
  puts[99].options.if_version = 1;
  client_.multi_put(puts);
  EXPECT_EQ(puts[0].result.code(), Code::kExists);
  EXPECT_EQ(puts[99].result.code(), Code::kInvalidArgument);
  std::vector<GetItem> gets;
  for (const std::string& key : keys) gets.push_back({.key = key, .value = {}});
  client_.multi_get(gets);
  EXPECT_EQ(gets[0].value, "old");
  EXPECT_EQ(gets[99].result.code(), Code::kNotFound);
  for (size_t i = 1; i < 99; ++i) {
    ASSERT_TRUE(puts[i].result.has_value()) << i;
    ASSERT_TRUE(gets[i].result.has_value()) << i;
    EXPECT_EQ(gets[i].value, keys[i]);
    EXPECT_EQ(gets[i].result->version, *puts[i].result);
  }
  const std::vector<std::string_view> names(keys.begin(), keys.end());
  const auto values = client_.multi_get(names);
  ASSERT_EQ(values.size(), names.size());
  EXPECT_EQ(*values[7], "many/7");
  EXPECT_EQ(values[99].code(), Code::kNotFound);
}

TEST_P(ClientContract, the_server_counts_what_it_serves) {
  const auto before = client_.stat();
  ASSERT_TRUE(before.has_value());
  ASSERT_TRUE(client_.put("counted", "1").has_value());
  const auto after = client_.stat();
  ASSERT_TRUE(after.has_value());
  const auto puts = [](const NodeStat& stat) {
    return std::ranges::find(stat.calls, "put", &std::pair<std::string, uint64_t>::first)->second;
  };
  // A chain is none of its calls.
  if (GetParam().paths != Paths::kChain) {
    EXPECT_EQ(puts(*after), puts(*before) + 1);
  }
  EXPECT_GT(after->writes, before->writes);
  EXPECT_GT(after->entries, 0U);
  EXPECT_GT(after->bytes_total, 0U);
  const auto pong = client_.ping();
  ASSERT_TRUE(pong.has_value());
  EXPECT_GT(pong->node_wall_ns, 0U);
}

TEST_P(ClientContract, two_clients_see_each_other) {
  Client other = connect();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(client_.put("shared", std::to_string(i)).has_value());
    ASSERT_EQ(other.get("shared").value(), std::to_string(i));
  }
}

TEST(ClientPaths, a_direct_read_sends_no_message_and_a_put_sends_one) {
  const TestNode node;
  Client client = node.connect();
  ASSERT_TRUE(client.put("key", "value").has_value());
  const ClientCounters before = client.counters();
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_TRUE(client.get("key").has_value());
    ASSERT_TRUE(client.exists("key").has_value());
    ASSERT_TRUE(client.view("key").has_value());
    ASSERT_EQ(client.get("none").code(), Code::kNotFound);
    ASSERT_TRUE(client.scan(0).has_value());
  }
  EXPECT_EQ(client.counters().messages_sent, before.messages_sent);
  EXPECT_EQ(client.counters().direct_reads, before.direct_reads + 5'000);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(client.put("key", "value").has_value());
  EXPECT_EQ(client.counters().messages_sent, before.messages_sent + 100);
  EXPECT_TRUE(client.route().direct);
  EXPECT_NE(client.why().find("direct"), std::string::npos);
}

TEST(ClientPaths, the_rpc_path_reads_by_messages_and_says_why) {
  const TestNode node;
  Client client = node.connect({.paths = Paths::kRpc});
  ASSERT_TRUE(client.put("key", "value").has_value());
  const uint64_t before = client.counters().messages_sent;
  ASSERT_TRUE(client.get("key").has_value());
  EXPECT_EQ(client.counters().messages_sent, before + 1);
  EXPECT_EQ(client.counters().direct_reads, 0U);
  EXPECT_FALSE(client.route().direct);
  const auto view = client.view("key");
  ASSERT_TRUE(view.has_value());
  EXPECT_TRUE(view->is_copy());
  EXPECT_EQ(view->text(), "value");
}

TEST(ClientPaths, the_chain_path_takes_one_message_where_the_entry_was_seen_before) {
  const TestNode node({"--listen-address", "127.0.0.1:0"});
  const std::vector<std::string> addresses = {"refract://" + node.socket() + "?path=chain",
                                              "refract://" + node.tcp() + "?path=chain&transport=tcp"};
  for (const std::string& address : addresses) {
    Client client = TestNode::connect_to(address);
    ASSERT_TRUE(client.put("key", "value").has_value());
    ASSERT_EQ(client.get("key"), std::string("value"));
    uint64_t before = client.counters().messages_sent;
    ASSERT_TRUE(client.put("key", "second").has_value());
    EXPECT_EQ(client.counters().messages_sent, before + 1) << address;
    EXPECT_EQ(client.get("key"), std::string("second"));
    EXPECT_EQ(client.counters().messages_sent, before + 2) << address;
    // The same bytes on all paths.
    Client other = node.connect();
    EXPECT_EQ(other.get("key"), std::string("second"));
    ASSERT_TRUE(other.put("key", "third").has_value());
    before = client.counters().messages_sent;
    EXPECT_EQ(client.get("key"), std::string("third"));
    EXPECT_EQ(client.counters().messages_sent, before + 1) << address;
    EXPECT_TRUE(client.route().chain);
    EXPECT_NE(client.why().find("by chains"), std::string::npos);
    ASSERT_TRUE(client.erase("key").has_value());
    EXPECT_EQ(client.get("key").code(), Code::kNotFound);
  }
}

TEST(ClientPaths, a_node_that_forbids_chains_to_write_takes_puts_by_the_server) {
  const TestNode node({"--chains-write", "false"});
  Client client = node.connect({.paths = Paths::kChain});
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(client.put("key", std::to_string(i)).has_value());
  EXPECT_EQ(client.get("key"), std::string("9"));
  EXPECT_EQ(client.stat()->writes, 10U);
}

TEST(ClientPaths, get_and_put_allocate_nothing_after_their_first_calls) {
  const TestNode node;
  Client client = node.connect();
  const std::string value(64, 'v');
  std::string back;
  std::array<std::byte, 64> room{};
  const auto round = [&] {
    for (int i = 0; i < 1'000; ++i) {
      if (!client.put("a key of 16 byte", value) || !client.get("a key of 16 byte", back) ||
          !client.get_into("a key of 16 byte", room)) {
        return false;
      }
    }
    return true;
  };
  ASSERT_TRUE(round());
  const uint64_t before = allocation_count();
  ASSERT_TRUE(round());
  EXPECT_EQ(allocation_count(), before);
}

TEST(ClientConnect, where_nobody_answers_the_report_names_the_path) {
  const auto client = Client::connect("/tmp/refract-nothing/node.sock");
  ASSERT_FALSE(client.has_value());
  EXPECT_EQ(client.error().code, Code::kUnavailable);
  EXPECT_NE(client.error().what.find("/tmp/refract-nothing/node.sock"), std::string::npos);
}

}  // namespace
}  // namespace refract
