// SPDX-License-Identifier: Apache-2.0
// Which transport a client takes, what it says about it, and what it does over TCP and with several shards
// when servers and nodes go.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "refract/base/units.h"
#include "refract/client/client.h"
#include "refract/client/shard_cursor.h"
#include "refract/client/testing/test_node.h"

namespace refract::client_transports_test {
namespace {

using test::becomes_true;
using test::TestNode;
using test::value_of;

constexpr uint64_t kPatience_ns = 60 * kSecond_ns;

std::string port_of(const std::string& address) {
  return address.substr(address.rfind(':') + 1);
}

std::string secret_file(const test::TemporaryFolder& directory, const std::string& secret) {
  const std::string path = directory.path() + "/secret-" + std::to_string(secret.size());
  std::ofstream(path) << secret << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  return path;
}

TEST(ClientTransports, auto_takes_shared_memory_on_the_nodes_host_and_says_why_not_tcp) {
  const TestNode node({"--listen-address", "127.0.0.1:0", "--server-shards", "2"});
  const Client client = TestNode::connect_to("refract://" + node.tcp());
  const Route route = client.route();
  EXPECT_EQ(route.transport, "shm");
  EXPECT_EQ(route.address, node.socket());
  EXPECT_TRUE(route.direct);
  EXPECT_EQ(route.shards, 2U);
  EXPECT_EQ(route.shards_reached, 2U);
  ASSERT_EQ(route.others.size(), 2U);
  EXPECT_EQ(route.others[0].transport, "verbs");
  EXPECT_EQ(route.others[1].transport, "tcp");
  for (const OtherTransport& other : route.others) EXPECT_FALSE(other.reason.empty());
  EXPECT_NE(client.why().find("tcp"), std::string::npos);
}

TEST(ClientTransports, a_named_transport_is_taken) {
  const TestNode node({"--listen-address", "127.0.0.1:0"});
  const std::vector<std::string> addresses = {
      "tcp:" + node.tcp(), "refract://" + node.tcp() + "?transport=tcp",
      "refract://localhost:" + port_of(node.tcp()) + "?transport=tcp"};
  for (const std::string& address : addresses) {
    const Route route = TestNode::connect_to(address).route();
    EXPECT_EQ(route.transport, "tcp") << address;
    EXPECT_FALSE(route.direct);
    EXPECT_FALSE(route.reason.empty());
  }
  EXPECT_EQ(TestNode::connect_to("refract://" + node.tcp() + "?transport=shm").route().transport, "shm");
}

// The socket is gone from its folder, as from that of another container: TCP still leads there.
TEST(ClientTransports, a_named_transport_fails_where_auto_takes_another_and_says_why) {
  const TestNode node({"--listen-address", "127.0.0.1:0"});
  std::filesystem::remove(node.socket());
  const auto shm = Client::connect("refract://" + node.tcp() + "?transport=shm");
  ASSERT_FALSE(shm.has_value());
  EXPECT_EQ(shm.error().code, Code::kUnsupported);
  EXPECT_NE(shm.error().what.find("shared memory does not lead"), std::string::npos) << shm.error().what;
  const Client client = TestNode::connect_to("refract://" + node.tcp());
  const Route route = client.route();
  EXPECT_EQ(route.transport, "tcp");
  ASSERT_EQ(route.others.size(), 2U);
  EXPECT_EQ(route.others[0].transport, "shm");
  EXPECT_NE(route.others[0].reason.find(node.socket()), std::string::npos) << route.others[0].reason;
  EXPECT_EQ(route.others[1].transport, "verbs");
  EXPECT_FALSE(route.others[1].reason.empty());
}

TEST(ClientTransports, the_default_socket_comes_before_tcp_if_it_is_the_same_node) {
  const char* before = std::getenv("XDG_RUNTIME_DIR");
  const std::string restore = before == nullptr ? "" : before;
  const TestNode node({"--listen-address", "127.0.0.1:0"});
  const TestNode other({"--listen-address", "127.0.0.1:0"});
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() + "/refract");
  std::filesystem::create_symlink(node.socket(), folder.path() + "/refract/node.sock");
  ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  const Route same = TestNode::connect_to("refract://" + node.tcp()).route();
  EXPECT_EQ(same.address, folder.path() + "/refract/node.sock");
  EXPECT_NE(same.chosen.find("default socket"), std::string::npos);
  EXPECT_EQ(TestNode::connect_to("refract://" + other.tcp()).route().address, other.socket());
  before == nullptr ? ::unsetenv("XDG_RUNTIME_DIR") : ::setenv("XDG_RUNTIME_DIR", restore.c_str(), 1);
}

TEST(ClientTransports, the_secret_comes_from_the_address_the_options_or_the_environment) {
  const test::TemporaryFolder directory;
  const std::string right = secret_file(directory, "a secret of some length");
  const std::string wrong = secret_file(directory, "another secret, and a longer one");
  const TestNode node({"--listen-address", "127.0.0.1:0", "--auth-secret-file", right});
  const std::string address = "refract://" + node.tcp() + "?transport=tcp";
  EXPECT_TRUE(Client::connect(address + "&secret_file=" + right).has_value());
  EXPECT_TRUE(Client::connect(address, {.secret_file = right}).has_value());
  ::setenv("REFRACT_SECRET_FILE", right.c_str(), 1);
  EXPECT_TRUE(Client::connect(address).has_value());
  ::unsetenv("REFRACT_SECRET_FILE");
  const auto with_wrong = Client::connect(address, {.secret_file = wrong});
  ASSERT_FALSE(with_wrong.has_value());
  EXPECT_EQ(with_wrong.error().code, Code::kAccessDenied) << with_wrong.error().to_string();
  const auto with_none = Client::connect(address);
  ASSERT_FALSE(with_none.has_value());
  EXPECT_EQ(with_none.error().code, Code::kAccessDenied) << with_none.error().to_string();
  const auto with_missing = Client::connect(address, {.secret_file = directory.path() + "/none"});
  ASSERT_FALSE(with_missing.has_value());
  EXPECT_NE(with_missing.error().what.find("/none"), std::string::npos);
}

TEST(ClientTransports, a_device_that_is_not_there_is_refused_wherever_it_could_be_taken) {
  const TestNode node({"--listen-address", "127.0.0.1:0"});
  const std::string address = "refract://" + node.tcp();
  const auto refused = [](const std::string& place, const ClientOptions& options) {
    const auto client = Client::connect(place, options);
    ASSERT_FALSE(client.has_value()) << place;
    EXPECT_EQ(client.error().code, Code::kUnsupported);
    EXPECT_NE(client.error().what.find("no RDMA device named 'mlx5_77'"), std::string::npos)
        << client.error().to_string();
    EXPECT_FALSE(client.error().next.empty());
  };
  refused(address + "?device=mlx5_77", {});
  refused(address + "?transport=verbs&device=mlx5_77", {});
  refused(address, {.rdma_device = "mlx5_77"});
  ::setenv("REFRACT_RDMA_DEVICE", "mlx5_77", 1);
  refused("verbs:" + node.tcp(), {});
  EXPECT_TRUE(Client::connect("tcp:" + node.tcp()).has_value()) << "no device would be used there";
  EXPECT_TRUE(Client::connect(address + "?device=none").has_value()) << "the address comes first";
  ::unsetenv("REFRACT_RDMA_DEVICE");
}

TEST(ClientTransports, a_client_that_is_to_use_no_device_says_so_and_takes_tcp) {
  const TestNode node({"--listen-address", "127.0.0.1:0"});
  std::filesystem::remove(node.socket());
  const Client client = TestNode::connect_to("refract://" + node.tcp() + "?device=none");
  const Route route = client.route();
  EXPECT_EQ(route.transport, "tcp");
  ASSERT_EQ(route.others.size(), 2U);
  EXPECT_NE(route.others[1].reason.find("told to use no RDMA device"), std::string::npos)
      << route.others[1].reason;
  const auto verbs = Client::connect("verbs:" + node.tcp(), {.rdma_device = "none"});
  ASSERT_FALSE(verbs.has_value());
  EXPECT_EQ(verbs.error().code, Code::kUnsupported);
}

TEST(ClientTransports, where_nobody_listens_the_report_names_the_address) {
  const auto client = Client::connect("tcp:127.0.0.1:1");
  ASSERT_FALSE(client.has_value());
  EXPECT_EQ(client.error().code, Code::kUnavailable);
  EXPECT_NE(client.error().what.find("127.0.0.1:1"), std::string::npos) << client.error().what;
}

TEST(ClientTcp, every_acknowledged_put_survives_kill_9_and_the_client_goes_on) {
  const TestNode node(
      {"--listen-address", "127.0.0.1:0", "--server-shards", "2", "--restart-backoff", "0ns"});
  Client client = TestNode::connect_to("tcp:" + node.tcp(), {.timeout_ns = kPatience_ns});
  Client watcher = node.connect({.timeout_ns = kPatience_ns});
  std::map<std::string, std::string> acknowledged;
  for (int kill = 0; kill < 3; ++kill) {
    for (uint64_t i = 0; i < 300; ++i) {
      if (i == 150) (void)::kill(test::server_of(watcher), SIGKILL);
      const std::string key = "kill/" + std::to_string(i);
      const auto put = client.put(key, std::to_string(kill));
      if (put) {
        acknowledged[key] = std::to_string(kill);
      } else {
        EXPECT_EQ(put.code(), Code::kIndeterminate) << client.trouble().to_string();
        acknowledged.erase(key);
      }
    }
    ASSERT_TRUE(becomes_true([&] { return watcher.ping().has_value(); }));
  }
  EXPECT_GE(client.counters().server_losses, 1U);
  for (const auto& [key, value] : acknowledged) {
    const auto got = client.get(key);
    ASSERT_TRUE(got.has_value()) << key << " " << text(got.code());
    EXPECT_EQ(*got, value);
  }
}

// While the client rests its server goes, and comes back: the next call must not run into the old connection.
TEST(ClientTcp, a_server_that_was_restarted_during_a_pause_costs_no_write) {
  const TestNode node({"--listen-address", "127.0.0.1:0", "--restart-backoff", "0ns"});
  Client client = TestNode::connect_to("tcp:" + node.tcp(), {.timeout_ns = kPatience_ns});
  Client watcher = node.connect({.timeout_ns = kPatience_ns});
  ASSERT_TRUE(client.put("key", "0").has_value());
  for (int kill = 1; kill <= 3; ++kill) {
    const uint64_t incarnation = watcher.route().incarnation;
    (void)::kill(test::server_of(watcher), SIGKILL);
    ASSERT_TRUE(becomes_true(
        [&] { return watcher.ping().has_value() && watcher.route().incarnation > incarnation; }));
    const auto put = client.put("key", std::to_string(kill));
    EXPECT_TRUE(put.has_value()) << text(put.code());
    EXPECT_EQ(client.get("key").value(), std::to_string(kill));
  }
}

TEST(ClientTcp, a_stopped_server_is_a_deadline_and_the_client_goes_on) {
  const TestNode node({"--listen-address", "127.0.0.1:0"});
  Client client = TestNode::connect_to("tcp:" + node.tcp(), {.timeout_ns = 300 * kMillisecond_ns});
  Client watcher = node.connect();
  ASSERT_TRUE(client.put("key", "value").has_value());
  const pid_t server = test::server_of(watcher);
  ASSERT_EQ(::kill(server, SIGSTOP), 0);
  EXPECT_EQ(client.get("key").code(), Code::kDeadlineExceeded);
  EXPECT_EQ(client.put("key", "other").code(), Code::kIndeterminate);
  EXPECT_EQ(client.scan(0).code(), Code::kDeadlineExceeded);
  EXPECT_EQ(client.stat().code(), Code::kDeadlineExceeded);
  EXPECT_FALSE(client.trouble().what.empty());
  ASSERT_EQ(::kill(server, SIGCONT), 0);
  EXPECT_TRUE(becomes_true([&] { return client.put("key", "third").has_value(); }));
}

TEST(ClientShards, a_node_with_other_shards_at_the_same_address_is_learnt_anew) {
  TestNode few({"--server-shards", "1"});
  Client client = few.connect({.timeout_ns = kPatience_ns});
  Client resting = few.connect({.timeout_ns = kPatience_ns});
  ASSERT_TRUE(resting.put("key", "value").has_value());
  for (const char* shards : {"3", "2", "1"}) {
    few.end(SIGTERM);
    few.set_flags({"--server-shards", shards});
    few.start();
    std::vector<std::string> keys;
    std::vector<PutItem> items;
    for (int i = 0; i < 200; ++i) keys.push_back("key/" + std::to_string(i));
    for (const std::string& key : keys) items.push_back({.key = key, .value = key});
    // The first attempts find out that the node of before has gone.
    ASSERT_TRUE(becomes_true([&] {
      client.multi_put(items);
      return std::ranges::all_of(items, [](const PutItem& item) { return item.result.has_value(); });
    }));
    for (const std::string& key : keys) {
      const auto got = client.get(key);
      ASSERT_TRUE(got.has_value()) << key << " " << text(got.code());
      EXPECT_EQ(*got, key);
    }
    EXPECT_EQ(client.route().shards, static_cast<uint32_t>(std::atoi(shards)));
    ASSERT_TRUE(becomes_true([&] { return resting.get("key/7").code() == Code::kOk; }));
    EXPECT_EQ(client.stat()->entries, 200U);
  }
}

TEST(ClientShards, each_shard_has_its_part_and_a_direct_read_sends_nothing) {
  const TestNode node({"--server-shards", "4"});
  Client client = node.connect();
  for (int i = 0; i < 400; ++i) ASSERT_TRUE(client.put("key/" + std::to_string(i), "value").has_value());
  const uint64_t before = client.counters().messages_sent;
  for (int i = 0; i < 400; ++i) ASSERT_TRUE(client.get("key/" + std::to_string(i)).has_value());
  EXPECT_EQ(client.counters().messages_sent, before);
  EXPECT_EQ(client.counters().direct_reads, 400U);
  // A page is of one shard: its number is in the cursor.
  std::map<uint64_t, size_t> of_shard;
  uint64_t cursor = 0;
  do {
    const auto page = client.scan(cursor, 1'000);
    ASSERT_TRUE(page.has_value());
    of_shard[client::ShardCursor::from(cursor).shard] += page->entries.size();
    cursor = page->next;
  } while (cursor != 0);
  ASSERT_EQ(of_shard.size(), 4U);
  for (const auto& [shard, count] : of_shard) EXPECT_GT(count, 50U) << shard;
  EXPECT_TRUE(client.scan(client::ShardCursor{.shard = 199}.followed_by(0, 256))->entries.empty());
  EXPECT_EQ(client.stat()->entries, 400U);
}

}  // namespace
}  // namespace refract::client_transports_test
