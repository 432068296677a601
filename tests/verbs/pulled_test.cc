// SPDX-License-Identifier: Apache-2.0
// Large values that a node READs from its clients' memory, by the machine's devices: how many messages and
// READs they take, and that either side may be killed in the middle of one.
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <string_view>

#include "tests/process/node_process.h"

#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/kv/owner/service/pull_fetcher.h"

namespace refract::test {
namespace {

constexpr uint64_t kPiece = kv::PullFetcher::kPieceBytes;

NodeOptions roomy() {
  return {.arguments = {"--listen-address", "127.0.0.1:0", "--restart-limit", "1000", "--restart-backoff",
                        "0ns", "--memory-initial", "64MiB", "--memory-limit", "512MiB"}};
}

Client connect(const Node& node) {
  auto client = Client::connect("verbs:" + node.tcp_address(), {.timeout_ns = kPatience_ns});
  EXPECT_TRUE(client.has_value()) << client.error().to_string();
  return std::move(*client);
}

// Shows where each of its bytes belongs, and whose it is.
std::string patterned(uint64_t bytes, uint64_t number) {
  std::string value(bytes, '\0');
  for (uint64_t i = 0; i < bytes; ++i) value[i] = static_cast<char>(i * 131 + (i >> 12) * 7 + number * 29);
  return value;
}

bool is_one_of_two(const std::string& value, uint64_t bytes) {
  return value == patterned(bytes, 1) || value == patterned(bytes, 2);
}

TEST(VerbsPulledPut, is_one_message_to_the_node) {
  Node node(roomy());
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = connect(node);
  const std::string value = patterned(3 * kPiece, 1);
  ASSERT_TRUE(client.put("key", value));
  const uint64_t before = client.counters().messages_sent;
  ASSERT_TRUE(client.put("key", value));
  EXPECT_EQ(client.counters().messages_sent - before, 1u);
  EXPECT_TRUE(client.get("key").value() == value);
  EXPECT_EQ(node.stop(), 0);
}

TEST(VerbsPulledPut, of_64_mib_comes_from_where_it_lies) {
  Node node(roomy());
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = connect(node);
  std::string value = patterned(64 * kMiB, 1);
  const uint64_t before = client.counters().messages_sent;
  ASSERT_TRUE(client.put("key", value)) << client.trouble().what;
  EXPECT_EQ(client.counters().messages_sent - before, 1u);
  // The memory is the caller's again.
  value.assign(value.size(), 'x');
  Client here = node.connect();
  const auto got = here.get("key");
  ASSERT_TRUE(got) << info(got.code()).text;
  EXPECT_TRUE(*got == patterned(64 * kMiB, 1));
  EXPECT_EQ(node.stop(), 0);
}

TEST(VerbsPulledPut, whose_client_is_killed_leaves_the_value_before_and_nobody_waiting) {
  constexpr uint64_t kBytes = 2 * kMiB + 5;
  Node node(roomy());
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = connect(node);
  ASSERT_TRUE(client.put("key", patterned(kBytes, 1)));
  for (int round = 0; round < 3; ++round) {
    const uint64_t before = needed(client.stat()).writes;
    Process putter = Process::run([&node] {
      Client own = connect(node);
      const std::string one = patterned(kBytes, 1);
      const std::string two = patterned(kBytes, 2);
      for (uint64_t n = 0;; ++n) {
        if (!own.put("key", n % 2 == 0 ? two : one)) return 1;
      }
    });
    // Drafts take numbers, too: it is in the middle of something.
    ASSERT_TRUE(becomes_true([&] { return client.stat().value().writes > before + 4; }));
    putter.kill_now();
    const auto value = client.get("key");
    ASSERT_TRUE(value) << info(value.code()).text;
    EXPECT_TRUE(is_one_of_two(*value, kBytes)) << "in round " << round;
    ASSERT_TRUE(client.put("other", patterned(kBytes, 2)));
  }
  // What its puts had begun is given back once its sessions have ended.
  EXPECT_TRUE(becomes_true([&] { return client.stat().value().buffers_live == 2; }));
  EXPECT_EQ(node.stop(), 0);
}

TEST(VerbsPulledPut, whose_server_is_killed_is_there_whole_or_not_at_all) {
  constexpr uint64_t kBytes = 2 * kMiB + 5;
  Node node(roomy());
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = connect(node);
  ASSERT_TRUE(client.put("key", patterned(kBytes, 1)));
  Process putter = Process::run([&node]() -> int {
    Client own = connect(node);
    const std::string one = patterned(kBytes, 1);
    const std::string two = patterned(kBytes, 2);
    for (uint64_t n = 0;; ++n) (void)own.put("key", n % 2 == 0 ? two : one);
  });
  for (int round = 0; round < 3; ++round) {
    const uint64_t before = needed(client.stat()).writes;
    ASSERT_TRUE(becomes_true([&] {
      const auto stat = client.stat();
      return stat && (stat->writes > before + 2 || stat->writes < before);
    }));
    const pid_t server = node.server();
    send_signal(server, SIGKILL);
    ASSERT_GT(node.next_server(server), 0);
    const auto value = client.get("key");
    ASSERT_TRUE(value) << info(value.code()).text << " in round " << round;
    EXPECT_TRUE(is_one_of_two(*value, kBytes)) << "in round " << round;
  }
  putter.kill_now();
  EXPECT_EQ(node.stop(), 0);
}

}  // namespace
}  // namespace refract::test
