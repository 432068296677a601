// SPDX-License-Identifier: Apache-2.0
// Clients of a real node that read nothing, stall, or send nonsense after an honest handshake, and clients
// of other versions of the wire: others are served all the time, and nothing grows without bound.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "tests/network/handmade_client.h"
#include "tests/network/node_use.h"
#include "tests/process/node_process.h"
#include "tests/process/sealed.h"

#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/fabric/tcp/tuning.h"

namespace refract::test {
namespace {

// A client that gets and puts all the time; whatever goes wrong ends it.
class Witness {
 public:
  explicit Witness(const Node& node) : client_(node.connect_tcp()), thread_([this] { run(); }) {}
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;
  ~Witness() {
    stop_.store(true);
    thread_.join();
  }
  // False: something went wrong.
  [[nodiscard]] bool is_served() {
    const uint64_t goal = rounds_.load() + 20;
    return becomes_true([&] { return rounds_.load() >= goal || failed_.load(); }) && !failed_.load();
  }

 private:
  void run() {
    for (uint64_t number = 1; !stop_.load() && !failed_.load(); ++number) {
      const bool good = client_.put("witness", sealed_value("witness", number, 100)).has_value() &&
                        number_in("witness", client_.get("witness").value_or("")) == number &&
                        client_.counters().server_losses == 0;
      if (!good) failed_.store(true);
      rounds_.fetch_add(1);
    }
  }

  Client client_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> failed_ = false;
  std::atomic<uint64_t> rounds_ = 0;
  std::thread thread_;
};

class HostileClients : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(node.is_up()) << node.errors();
    server = node.server();
    watcher.emplace(node.connect());
    ASSERT_TRUE(watcher->put("key", "value"));
    ASSERT_TRUE(watcher->put("long", sealed_value("long", 1, 30'000)));
    client.emplace(node);
    ASSERT_TRUE(client->is_served());
    connections_before = connections();
  }
  void TearDown() override {
    if (!client) return;
    EXPECT_TRUE(client->is_served());
    client.reset();
    watcher.reset();
    EXPECT_EQ(node.server(), server) << "the server ended: " << node.errors();
    EXPECT_EQ(node.stop(), 0);
  }

  // Of all clients of the node.
  [[nodiscard]] uint64_t connections() { return needed(watcher->stat()).connections; }
  // An honest handshake, and its maker.
  [[nodiscard]] HandmadeClient admitted() const {
    HandmadeClient made(node.tcp_address());
    EXPECT_TRUE(made.is_connected());
    const auto welcome = made.shake_hands();
    EXPECT_TRUE(welcome) << welcome.error().to_string();
    return made;
  }
  // Nothing, or how a call of it is answered instead.
  [[nodiscard]] static std::string wrong_answer_to(HandmadeClient& asking) {
    if (!asking.send_all(get_frame(77, "key"))) return "the connection is over";
    const auto reply = asking.wait_for_reply();
    if (!reply) return "no reply";
    return reply->id == 77 && reply->code == Code::kOk && reply->body.ends_with("value") ? ""
                                                                                         : "another reply";
  }

  Node node{{.arguments = {"--listen-address", "127.0.0.1:0"}}};
  pid_t server = -1;
  std::optional<Witness> client;
  std::optional<Client> watcher;  // By shared memory.
  uint64_t connections_before = 0;
};

TEST_F(HostileClients, who_asks_for_ever_and_reads_nothing_is_bounded_and_hurts_nobody) {
  constexpr size_t kClients = 16;
  constexpr uint64_t kCallsEach = 20'000;
  // What design pages 010 and 013 allow a connection: the channel's output, as many replies that found it
  // full, and a block of what is to be read.
  constexpr uint64_t kBytesEach = 2 * fabric::tcp::kOutputBytesMax + 2 * fabric::tcp::kBlockBytes;
  static_assert(kCallsEach * 30'000 > 20 * kBytesEach, "without bounds it would show");
  const uint64_t before = private_bytes(server);
  std::vector<HandmadeClient> greedy;
  for (size_t i = 0; i < kClients; ++i) greedy.push_back(admitted());
  std::vector<std::string> to_send;
  for (size_t i = 0; i < kClients; ++i) {
    std::string& calls = to_send.emplace_back();
    for (uint64_t id = 0; id < kCallsEach; ++id) calls += get_frame(id, "long");
  }
  // Until no socket takes more: the node has stopped reading them, or closed them.
  uint64_t most = 0;
  for (int quiet = 0; quiet < 10;) {
    bool took = false;
    for (size_t i = 0; i < kClients; ++i) {
      const size_t sent = greedy[i].send_some(to_send[i]);
      to_send[i].erase(0, sent);
      took |= sent > 0;
    }
    most = std::max(most, private_bytes(server));
    quiet = took ? 0 : quiet + 1;
    sleep_ms(10);
  }
  EXPECT_TRUE(client->is_served());
  std::printf("%zu clients that read nothing took %.1f MiB of the %.1f MiB that they may have\n", kClients,
              static_cast<double>(most - before) / kMiB, static_cast<double>(kClients * kBytesEach) / kMiB);
  EXPECT_LT(most, before + kClients * kBytesEach + 16 * kMiB + sanitizer_bytes());
  for (HandmadeClient& each : greedy) each.reset();
  EXPECT_TRUE(becomes_true([&] { return connections() == connections_before; }));
}

TEST_F(HostileClients, a_byte_at_a_time_is_served_in_the_end_and_keeps_nobody_waiting) {
  constexpr size_t kClients = 50;
  std::vector<HandmadeClient> slow;
  for (size_t i = 0; i < kClients; ++i) slow.push_back(admitted());
  const std::string call = get_frame(77, "key");
  for (size_t at = 0; at < call.size(); ++at) {
    for (HandmadeClient& each : slow) ASSERT_TRUE(each.send_all(call.substr(at, 1)));
    sleep_ms(20);
  }
  EXPECT_TRUE(client->is_served());
  for (HandmadeClient& each : slow) {
    const auto reply = each.wait_for_reply();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->id, 77U);
    EXPECT_TRUE(reply->body.ends_with("value"));
  }
}

TEST_F(HostileClients, a_handshake_a_byte_at_a_time_is_given_up_while_others_are_let_in) {
  constexpr size_t kClients = 20;
  std::vector<HandmadeClient> slow;
  for (size_t i = 0; i < kClients; ++i) slow.emplace_back(node.tcp_address());
  // A byte of it a second, and there are more of them than seconds.
  const uint64_t word =
      fabric::tcp::FrameHeader{.bytes = sizeof(fabric::tcp::Hello), .kind = fabric::tcp::FrameKind::kHello}
          .word();
  for (size_t at = 0; at < sizeof(word); ++at) {
    const char byte = static_cast<char>(word >> 8 * at);
    for (HandmadeClient& each : slow) (void)each.send_some({&byte, 1});
    HandmadeClient newcomer = admitted();
    EXPECT_EQ(wrong_answer_to(newcomer), "");
    sleep_ms(at < 4 ? 1'000 : 100);
  }
  for (HandmadeClient& each : slow) EXPECT_TRUE(each.ends());
}

TEST_F(HostileClients, random_and_truncated_frames_behind_an_honest_handshake_end_only_their_own_connection) {
  constexpr uint64_t kClients = 600;
  const uint64_t seed = secure_random_u64();
  std::printf("nonsense from seed %llu\n", static_cast<unsigned long long>(seed));
  Prng prng(seed);
  const uint64_t before = private_bytes(server);
  HandmadeClient honest = admitted();
  for (uint64_t i = 0; i < kClients; ++i) {
    HandmadeClient liar = admitted();
    std::string bytes;
    for (uint64_t part = 1 + prng.below(4); part > 0; --part) {
      bytes += prng.below(2) == 0 ? get_frame(prng.next(), "key") : nonsense(prng);
    }
    const bool is_cut_short = prng.below(3) == 0;
    if (is_cut_short) bytes.resize(prng.below(bytes.size()));
    (void)liar.send_all(bytes);
    if (prng.below(2) == 0) liar.reset();
  }
  EXPECT_TRUE(client->is_served());
  EXPECT_EQ(wrong_answer_to(honest), "");
  // A frame that no kind has ends the connection at once.
  HandmadeClient malformed = admitted();
  (void)malformed.send_all(std::string(64, '\xff'));
  EXPECT_TRUE(malformed.ends());
  honest.hang_up();
  malformed.hang_up();
  EXPECT_TRUE(becomes_true([&] { return connections() == connections_before; }));
  const uint64_t after = private_bytes(server);
  std::printf("%llu liars left %.2f MiB behind\n", static_cast<unsigned long long>(kClients),
              after > before ? static_cast<double>(after - before) / kMiB : 0);
  // The pool of blocks keeps that many.
  EXPECT_LT(after, before + 256 * fabric::tcp::kBlockBytes + 16 * kMiB + sanitizer_bytes());
}

// A node talks to clients of its own version of the wire and of the one before, each in its own version.
TEST_F(HostileClients, clients_of_each_version_that_the_node_speaks_are_served_and_others_are_told) {
  using fabric::tcp::kWireVersion;
  using fabric::tcp::kWireVersionOldest;
  EXPECT_EQ(kWireVersionOldest, kWireVersion > 1 ? kWireVersion - 1 : 1);
  for (uint16_t version = kWireVersionOldest; version <= kWireVersion; ++version) {
    HandmadeClient asking(node.tcp_address());
    const auto chosen = asking.shake_hands({.newest = version, .oldest = version});
    ASSERT_TRUE(chosen) << chosen.error().to_string();
    EXPECT_EQ(*chosen, version);
    EXPECT_EQ(wrong_answer_to(asking), "");
  }
  HandmadeClient newer(node.tcp_address());
  const auto chosen =
      newer.shake_hands({.newest = static_cast<uint16_t>(kWireVersion + 1), .oldest = kWireVersion});
  ASSERT_TRUE(chosen) << chosen.error().to_string();
  EXPECT_EQ(*chosen, kWireVersion);
  EXPECT_EQ(wrong_answer_to(newer), "");

  const auto too_old = static_cast<uint16_t>(kWireVersionOldest - 1);
  const auto too_new = static_cast<uint16_t>(kWireVersion + 1);
  for (const uint16_t version : {too_old, too_new}) {
    HandmadeClient stranger(node.tcp_address());
    const auto refused = stranger.shake_hands({.newest = version, .oldest = version});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kUnsupported) << refused.error().to_string();
    EXPECT_NE(refused.error().what.find(fabric::tcp::versions_text(version, version)), std::string::npos)
        << refused.error().what;
    EXPECT_NE(refused.error().next.find("update"), std::string::npos) << refused.error().next;
  }
}

}  // namespace
}  // namespace refract::test
