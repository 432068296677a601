// SPDX-License-Identifier: Apache-2.0
// A whole node, met over TCP and read by the machine's devices: what a client's program sees of it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tests/process/node_process.h"

namespace refract::test {
namespace {

NodeOptions listening(std::vector<std::string> further = {}) {
  NodeOptions options{.arguments = {"--listen-address", "127.0.0.1:0", "--restart-limit", "1000",
                                    "--restart-backoff", "0ns", "--memory-limit", "128MiB"}};
  options.arguments.insert(options.arguments.end(), further.begin(), further.end());
  return options;
}

Client connect(const Node& node) {
  auto client = Client::connect("verbs:" + node.tcp_address(), {.timeout_ns = kPatience_ns});
  EXPECT_TRUE(client.has_value()) << client.error().to_string();
  return std::move(*client);
}

std::string value_of(uint64_t n) {
  return std::string(16 + n % 4'000, static_cast<char>('a' + n % 26)) + std::to_string(n);
}

TEST(VerbsNode, serves_what_a_store_serves) {
  Node node(listening({"--server-shards", "2"}));
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = connect(node);
  const Route route = client.route();
  EXPECT_EQ(route.transport, "verbs");
  EXPECT_TRUE(route.direct) << route.reason;
  for (uint64_t n = 0; n < 60; ++n) {
    const std::string key = "key-" + std::to_string(n);
    ASSERT_TRUE(client.put(key, value_of(n)));
    EXPECT_EQ(client.get(key).value(), value_of(n));
  }
  const std::string large(700'000, 'L');
  ASSERT_TRUE(client.put("large", large));
  EXPECT_EQ(client.get("large").value(), large);
  ASSERT_TRUE(client.put("key-1", "another"));
  EXPECT_EQ(client.get("key-1").value(), "another") << "a location that was seen before is not believed";
  ASSERT_TRUE(client.erase("key-2"));
  EXPECT_EQ(client.get("key-2").code(), Code::kNotFound);
  std::vector<std::string> keys;
  for (uint64_t n = 3; n < 40; ++n) keys.push_back("key-" + std::to_string(n));
  std::vector<GetItem> items;
  for (const std::string& key : keys) items.push_back({.key = std::as_bytes(std::span(key))});
  client.multi_get(items);
  for (size_t i = 0; i < items.size(); ++i) {
    ASSERT_TRUE(items[i].result) << keys[i];
    EXPECT_EQ(items[i].value, value_of(i + 3));
  }
  EXPECT_EQ(node.stop(), 0);
}

TEST(VerbsNode, that_is_stopped_answers_gets_and_none_of_them_takes_its_time) {
  Node node(listening());
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = connect(node);
  for (uint64_t n = 0; n < 20; ++n) ASSERT_TRUE(client.put("key-" + std::to_string(n), value_of(n)));
  // The reader learns where the memory lies from the server, once.
  EXPECT_EQ(client.get("key-0").value(), value_of(0));
  const pid_t server = node.server();
  send_signal(server, SIGSTOP);
  ASSERT_TRUE(becomes_true([&] { return state_of(server) == 'T'; }));
  const uint64_t before = cpu_ticks(server);
  for (uint64_t n = 0; n < 400; ++n) {
    ASSERT_EQ(client.get("key-" + std::to_string(n % 20)).value(), value_of(n % 20)) << n;
  }
  EXPECT_EQ(client.get("nothing").code(), Code::kNotFound);
  EXPECT_EQ(cpu_ticks(server), before);
  send_signal(server, SIGCONT);
  ASSERT_TRUE(client.put("key-0", "after"));
  EXPECT_EQ(client.get("key-0").value(), "after");
  EXPECT_EQ(node.stop(), 0);
}

TEST(VerbsNode, that_serves_takes_no_time_for_gets) {
  Node node(listening({"--server-spin", "0ns"}));
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = connect(node);
  ASSERT_TRUE(client.put("key", "value"));
  EXPECT_EQ(client.get("key").value(), "value");
  const pid_t server = node.server();
  const uint64_t before = cpu_ticks(server);
  constexpr uint64_t kGets = 10'000;
  for (uint64_t n = 0; n < kGets; ++n) ASSERT_TRUE(client.get("key"));
  // Soft-RoCE works on the time of the process that happens to run, so a tick may be charged to a server that
  // only wakes for its own timers.
  EXPECT_LE(cpu_ticks(server) - before, 2u) << "for " << kGets << " gets";
}

TEST(VerbsNode, whose_server_is_killed_is_read_again_when_the_next_one_is_there) {
  Node node(listening());
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = connect(node);
  for (uint64_t n = 0; n < 20; ++n) ASSERT_TRUE(client.put("key-" + std::to_string(n), value_of(n)));
  for (int round = 0; round < 3; ++round) {
    const pid_t server = node.server();
    send_signal(server, SIGKILL);
    ASSERT_GT(node.next_server(server), 0);
    for (uint64_t n = 0; n < 20; ++n) {
      const auto value = client.get("key-" + std::to_string(n));
      ASSERT_TRUE(value) << info(value.code()).text << " in round " << round << ": " << client.trouble().what;
      EXPECT_EQ(*value, value_of(n));
    }
  }
  EXPECT_EQ(client.route().transport, "verbs");
  EXPECT_EQ(node.stop(), 0);
}

TEST(VerbsNode, that_grows_is_read_where_it_has_grown) {
  Node node(listening({"--memory-initial", "16MiB"}));
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = connect(node);
  const std::string piece(40'000, 'p');
  constexpr uint64_t kPieces = 900;  // 36 MB.
  for (uint64_t n = 0; n < kPieces; ++n) ASSERT_TRUE(client.put("piece-" + std::to_string(n), piece)) << n;
  for (uint64_t n = 0; n < kPieces; n += 30) {
    const auto value = client.get("piece-" + std::to_string(n));
    ASSERT_TRUE(value) << info(value.code()).text << " at " << n << ": " << client.trouble().what;
    EXPECT_EQ(value->size(), piece.size());
  }
  EXPECT_EQ(node.stop(), 0);
}

// The socket is gone from its folder, as it would be on another host; and the secret is wanted on this way,
// too.
TEST(VerbsNode, is_reached_by_rdma_before_tcp_where_shared_memory_does_not_lead_there) {
  const TemporaryFolder folder;
  const std::string secret = folder.path() + "/secret";
  ASSERT_TRUE(write_whole(secret, "correct horse battery staple\n"));
  ASSERT_EQ(::chmod(secret.c_str(), 0600), 0);
  Node node(listening({"--auth-secret-file", secret}));
  ASSERT_TRUE(node.is_up()) << node.errors();
  std::filesystem::remove(node.socket_path());
  const std::string address = "refract://" + node.tcp_address();
  auto client = Client::connect(address, {.timeout_ns = kPatience_ns, .secret_file = secret});
  ASSERT_TRUE(client.has_value()) << client.error().to_string();
  EXPECT_EQ(client->route().transport, "verbs");
  EXPECT_EQ(client->route().others.size(), 2u);
  ASSERT_TRUE(client->put("key", "value"));
  EXPECT_EQ(client->get("key").value(), "value");
  const auto stranger = Client::connect(address + "?transport=verbs", {.timeout_ns = kPatience_ns});
  ASSERT_FALSE(stranger.has_value());
  EXPECT_EQ(stranger.error().code, Code::kAccessDenied) << stranger.error().to_string();
  EXPECT_EQ(node.stop(), 0);
}

// Devices that do not reach each other cost a client some time, and not the node.
TEST(VerbsNode, whose_device_has_no_path_to_the_client_is_reached_over_tcp) {
  if (::access("/sys/class/net/veth0", F_OK) != 0) GTEST_SKIP() << "the devices are not joined by a cable";
  Node node(listening({"--rdma-device", "rxe1"}));
  ASSERT_TRUE(node.is_up()) << node.errors();
  std::filesystem::remove(node.socket_path());
  ASSERT_EQ(std::system("tc qdisc add dev veth0 root netem loss 100%"), 0);
  auto client = Client::connect("refract://" + node.tcp_address(), {.timeout_ns = kPatience_ns});
  EXPECT_EQ(std::system("tc qdisc del dev veth0 root"), 0);
  ASSERT_TRUE(client.has_value()) << client.error().to_string();
  const Route route = client->route();
  EXPECT_EQ(route.transport, "tcp");
  ASSERT_EQ(route.others.size(), 2u);
  EXPECT_EQ(route.others[1].transport, "verbs");
  for (const std::string_view words : {"rxe0", "MTU", "comes through", "refract doctor --peer"}) {
    EXPECT_NE(route.others[1].reason.find(words), std::string::npos) << route.others[1].reason;
  }
  ASSERT_TRUE(client->put("key", "value"));
  EXPECT_EQ(client->get("key").value(), "value");
  EXPECT_EQ(node.stop(), 0);
}

TEST(VerbsNode, that_connects_by_rdma_cm_alone_is_reached_by_it) {
  Node node(listening({"--rdma-connect-by", "cm", "--server-shards", "2"}));
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = connect(node);
  EXPECT_EQ(client.route().transport, "verbs");
  for (uint64_t n = 0; n < 20; ++n) ASSERT_TRUE(client.put("key-" + std::to_string(n), value_of(n)));
  const pid_t server = node.server();
  send_signal(server, SIGKILL);
  ASSERT_GT(node.next_server(server), 0);
  for (uint64_t n = 0; n < 20; ++n) {
    const auto value = client.get("key-" + std::to_string(n));
    ASSERT_TRUE(value) << info(value.code()).text << ": " << client.trouble().what;
    EXPECT_EQ(*value, value_of(n));
  }
  EXPECT_EQ(node.stop(), 0);
}

TEST(VerbsNode, without_a_device_that_works_refuses_to_start_where_one_is_named) {
  Node node(listening({"--rdma-device", "mlx5_77", "--restart-limit", "1"}));
  EXPECT_NE(node.process().wait(), 0);
  EXPECT_NE(node.errors().find("mlx5_77"), std::string::npos) << node.errors();
}

TEST(VerbsNode, that_offers_no_rdma_is_refused_by_name_and_found_over_tcp_otherwise) {
  Node node(listening({"--rdma-device", "none"}));
  ASSERT_TRUE(node.is_up()) << node.errors();
  const auto refused = Client::connect("verbs:" + node.tcp_address(), {.timeout_ns = 20'000'000'000});
  ASSERT_FALSE(refused.has_value());
  EXPECT_FALSE(refused.error().what.empty());
  Client client = node.connect_tcp();
  ASSERT_TRUE(client.put("key", "value"));
  EXPECT_EQ(client.get("key").value(), "value");
  EXPECT_EQ(node.stop(), 0);
}

}  // namespace
}  // namespace refract::test
