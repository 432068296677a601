// SPDX-License-Identifier: Apache-2.0
// A server that is killed loses nothing that it acknowledged, leaves nothing half-written, and leaks nothing.
//
// Method: kill -9 while several processes write values that seal themselves and keep a ledger of what was
// acknowledged; then everything is looked for, erased, and the memory counted.
#include <gtest/gtest.h>
#include <signal.h>

#include <vector>

#include "tests/process/load.h"
#include "tests/process/node_process.h"

#include "refract/base/prng.h"
#include "refract/base/testing/needed.h"

namespace refract::test {
namespace {

// How many shards the node has, and how its clients reach it.
struct Shape {
  const char* name;
  uint32_t shards = 1;
  bool is_tcp = false;

  [[nodiscard]] std::vector<std::string> arguments(std::vector<std::string> further) const {
    further.insert(further.end(), {"--server-shards", std::to_string(shards), "--listen-address",
                                   "127.0.0.1:0", "--restart-limit", "1000", "--restart-backoff", "0ns"});
    return further;
  }
  [[nodiscard]] std::string address(const Node& node) const {
    return is_tcp ? "tcp:" + node.tcp_address() : node.socket_path();
  }
};

constexpr Shape kShapes[] = {{.name = "one_shard"},
                             {.name = "two_shards", .shards = 2},
                             {.name = "four_shards", .shards = 4},
                             {.name = "one_shard_over_tcp", .is_tcp = true},
                             {.name = "four_shards_over_tcp", .shards = 4, .is_tcp = true}};

class Killed : public testing::TestWithParam<Shape> {};

INSTANTIATE_TEST_SUITE_P(Shapes, Killed, testing::ValuesIn(kShapes),
                         [](const auto& shape) { return std::string(shape.param.name); });

class KilledWhileGrowing : public testing::TestWithParam<Shape> {};

INSTANTIATE_TEST_SUITE_P(Shapes, KilledWhileGrowing, testing::Values(kShapes[0], kShapes[1]),
                         [](const auto& shape) { return std::string(shape.param.name); });

std::vector<Process> start_load(const std::string& address, const SharedLedger& ledger, int clients,
                                LoadOptions options = {}) {
  std::vector<Process> processes;
  for (int client = 0; client < clients; ++client) {
    options.client = client;
    processes.push_back(
        Process::run([address, &ledger, options] { return run_load(address, *ledger, options); }));
  }
  return processes;
}

bool await_operations(const SharedLedger& ledger, uint64_t further) {
  const uint64_t goal = ledger.operations() + further;
  return becomes_true([&] { return ledger.operations() >= goal; });
}

TEST_P(Killed, server_loses_no_acknowledged_write_and_leaks_nothing) {
  constexpr int kClients = 3;
  constexpr int kKills = 8;
  Node node({.arguments = GetParam().arguments({"--memory-limit", "512MiB"})});
  ASSERT_TRUE(node.is_up()) << node.errors();
  const SharedLedger ledger;
  std::vector<Process> clients = start_load(GetParam().address(node), ledger, kClients);
  Prng prng(1);
  pid_t server = node.server();
  for (int i = 0; i < kKills; ++i) {
    ASSERT_TRUE(await_operations(ledger, 20 + prng.below(400))) << node.errors();
    sleep_ms(prng.below(20));
    send_signal(server, SIGKILL);
    server = node.next_server(server);
  }
  ASSERT_TRUE(await_operations(ledger, 200)) << node.errors();
  ledger->stop.store(true);
  for (Process& client : clients) EXPECT_EQ(client.wait(), 0);

  Client client = node.connect();
  EXPECT_EQ(differences(client, *ledger, kClients), "");
  for (int of = 0; of < kClients; ++of) EXPECT_GT(ledger->clients[of].server_losses.load(), 0U);
  EXPECT_EQ(leak_after_erasing_all(client), "") << node.errors();
  // The memory that recovery counts is the memory that was counted all along.
  const NodeStat before = needed(client.stat());
  send_signal(server, SIGKILL);
  (void)node.next_server(server);
  auto after = client.stat();
  ASSERT_TRUE(becomes_true([&] { return (after = client.stat()).code() == Code::kOk; }));
  EXPECT_EQ(before.bytes_live - before.bytes_retired, after->bytes_live - after->bytes_retired);
  // Size classes keep an empty chunk at hand; a new server has none yet.
  EXPECT_LE(before.bytes_free, after->bytes_free);
  EXPECT_EQ(node.stop(), 0);
}

// What grows while the server dies belongs to the next one.
TEST_P(KilledWhileGrowing, server_loses_nothing) {
  for (int round = 0; round < 2; ++round) {
    Node node({.arguments = GetParam().arguments({"--memory-limit", "400MiB"})});
    ASSERT_TRUE(node.is_up()) << node.errors();
    const SharedLedger ledger;
    std::vector<Process> clients =
        start_load(GetParam().address(node), ledger, 2, {.large_bytes = 6'000'000, .may_fill_up = true});
    Prng prng(static_cast<uint64_t>(round) + 7);
    pid_t server = node.server();
    for (int i = 0; i < 6; ++i) {
      ASSERT_TRUE(await_operations(ledger, 1 + prng.below(20))) << node.errors();
      sleep_ms(prng.below(30));
      send_signal(server, SIGKILL);
      server = node.next_server(server);
    }
    ASSERT_TRUE(await_operations(ledger, 50)) << node.errors();
    ledger->stop.store(true);
    for (Process& client : clients) EXPECT_EQ(client.wait(), 0);
    Client client = node.connect();
    EXPECT_EQ(differences(client, *ledger, 2), "");
    EXPECT_EQ(leak_after_erasing_all(client), "") << node.errors();
  }
}

// Several crashes in the same instant, before a client was served.
TEST(KilledServer, survives_crashes_during_its_own_start) {
  Node node({.arguments = {"--restart-limit", "1000", "--restart-backoff", "0ns"}});
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = node.connect();
  for (int i = 0; i < 2'000; ++i) {
    ASSERT_TRUE(client.put("key" + std::to_string(i), "value" + std::to_string(i)));
  }
  pid_t server = node.server();
  for (int i = 0; i < 40; ++i) {
    send_signal(server, SIGKILL);
    server = node.next_server(server);
    ASSERT_GT(server, 0);
  }
  ASSERT_TRUE(put_in_the_end(client, "after", "all"));
  for (int i = 0; i < 2'000; ++i) {
    ASSERT_EQ(client.get("key" + std::to_string(i)).value_or(""), "value" + std::to_string(i));
  }
}

TEST(KilledServer, is_given_up_after_the_limit_and_stays_readable) {
  Node node({.arguments = {"--restart-limit", "2", "--restart-backoff", "1ms"}});
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = node.connect();
  ASSERT_TRUE(client.put("key", "value"));
  Client impatient = node.connect({.timeout_ns = 300'000'000});
  ASSERT_TRUE(impatient.ping());
  pid_t server = node.server();
  for (int i = 0; i < 3; ++i) {
    ASSERT_GT(server, 0);
    send_signal(server, SIGKILL);
    if (i < 2) server = node.next_server(server);
  }
  ASSERT_TRUE(becomes_true([&] { return node.errors().find("not started again") != std::string::npos; }));
  EXPECT_EQ(node.server(), -1);
  EXPECT_NE(node.errors().find("refract dump"), std::string::npos);

  // No client waits out a deadline for what will not come: this client's is longer than the test may take.
  const auto refused = client.put("key", "other");
  EXPECT_EQ(refused.code(), Code::kUnavailable) << info(refused.code()).text;
  EXPECT_NE(client.trouble().what.find("given up"), std::string::npos) << client.trouble().what;
  EXPECT_EQ(impatient.put("key", "other").code(), Code::kUnavailable);
  EXPECT_EQ(client.get("key").value_or(""), "value");
  Client fresh = node.connect();
  EXPECT_EQ(fresh.get("key").value_or(""), "value");
  EXPECT_EQ(fresh.put("key", "other").code(), Code::kUnavailable);
  EXPECT_EQ(node.stop(), 0);
}

}  // namespace
}  // namespace refract::test
