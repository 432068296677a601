// SPDX-License-Identifier: Apache-2.0
// Very many connections that do nothing, and more of them than a node takes.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/network/handmade_client.h"
#include "tests/network/node_use.h"
#include "tests/process/node_process.h"
#include "tests/process/sealed.h"

#include "refract/base/clock.h"
#include "refract/base/testing/needed.h"
#include "refract/base/units.h"

namespace refract::test {
namespace {

constexpr size_t kCrowd = 10'000;
// Of one process of the crowd, and what it needs for itself.
constexpr size_t kOfOneProcess = 4'000;
constexpr size_t kOwnDescriptors = 64;

// What children inherit, the node among them: as many descriptors as this system gives.
size_t raise_descriptor_limit() {
  rlimit limit{};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  rlimit wanted{.rlim_cur = 4 * kCrowd, .rlim_max = std::max<rlim_t>(limit.rlim_max, 4 * kCrowd)};
  if (::setrlimit(RLIMIT_NOFILE, &wanted) != 0) {
    wanted = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    (void)::setrlimit(RLIMIT_NOFILE, &wanted);
  }
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

// Processes that hold connections behind their handshakes, each with one answered call, until it goes.
class Crowd {
 public:
  Crowd(const std::string& address, size_t size, size_t of_one_process) {
    for (size_t held = 0; held < size; held += of_one_process) {
      const std::string ready = folder_.path() + "/" + std::to_string(held);
      const size_t count = std::min(of_one_process, size - held);
      processes_.push_back(Process::run([=] { return hold(address, count, ready); }));
      files_.push_back(ready);
    }
  }
  [[nodiscard]] bool is_there() {
    return becomes_true([this] {
             return std::ranges::all_of(files_,
                                        [](const std::string& file) { return read_whole(file) == "yes"; }) ||
                    !std::ranges::all_of(processes_, [](Process& process) { return process.is_running(); });
           }) &&
           std::ranges::all_of(processes_, [](Process& process) { return process.is_running(); });
  }

 private:
  static int hold(const std::string& address, size_t count, const std::string& ready) {
    std::vector<HandmadeClient> clients;
    for (size_t i = 0; i < count; ++i) {
      HandmadeClient& client = clients.emplace_back(address);
      if (!client.is_connected()) return 1;
      const auto welcome = client.shake_hands();
      if (!welcome) {
        (void)std::fprintf(stderr, "connection %zu: %s\n", i, welcome.error().to_string().c_str());
        return 2;
      }
      if (!client.send_all(get_frame(i, "key"))) return 3;
      const auto reply = client.wait_for_reply();
      if (!reply || reply->code != Code::kOk) return 4;
    }
    if (!write_whole(ready, "yes")) return 5;
    for (;;) (void)::pause();
  }

  const TemporaryFolder folder_;
  std::vector<std::string> files_;
  std::vector<Process> processes_;
};

TEST(Crowd, ten_thousand_idle_connections_take_little_memory_no_processor_and_nobody_elses_place) {
  const size_t limit = raise_descriptor_limit();
  Node node({.arguments = {"--listen-address", "127.0.0.1:0", "--clients-max", "10240"}});
  ASSERT_TRUE(node.is_up()) << node.errors();
  const pid_t server = node.server();
  Client witness = node.connect_tcp();
  ASSERT_TRUE(witness.put("key", "value"));
  const uint64_t connections_before = needed(witness.stat()).connections;
  const size_t descriptors_before = descriptors_of(server);
  const uint64_t bytes_before = private_bytes(server);
  const bool is_root = descriptors_before > 0;
  const size_t allowed = descriptors_max(server) - descriptors_before - 2 * kOwnDescriptors;
  const size_t size = std::min(kCrowd, allowed);
  const size_t of_one_process = std::min(kOfOneProcess, limit - kOwnDescriptors);
  uint64_t bytes_most = 0;
  if (size < kCrowd) std::printf("the limit on descriptors (%zu) allows %zu of %zu\n", limit, size, kCrowd);
  {
    Crowd crowd(node.tcp_address(), size, of_one_process);
    ASSERT_TRUE(crowd.is_there()) << node.errors();
    EXPECT_EQ(witness.stat().value().connections, connections_before + size);
    if (is_root) {
      EXPECT_EQ(descriptors_of(server), descriptors_before + size);
    }
    bytes_most = private_bytes(server);
    const uint64_t bytes_each = (bytes_most - bytes_before) / size;

    const uint64_t begun_ns = system_clock().now_ns();
    const uint64_t ticks_before = cpu_ticks(server);
    sleep_ms(2'000);
    const double busy = static_cast<double>(cpu_ticks(server) - ticks_before) /
                        static_cast<double>(::sysconf(_SC_CLK_TCK)) /
                        (static_cast<double>(system_clock().now_ns() - begun_ns) / 1e9);
    std::printf("%zu idle connections: %llu B each of the server's own memory, %.1f %% of a processor\n",
                size, static_cast<unsigned long long>(bytes_each), 100 * busy);
    EXPECT_LT(bytes_each, 8 * kKiB + sanitizer_bytes() / size);
    EXPECT_LT(busy, 0.2) << "a server that asks round uses all of a processor";

    Client newcomer = node.connect_tcp();
    EXPECT_EQ(newcomer.get("key").value_or(""), "value");
    EXPECT_TRUE(newcomer.put("key", "value of a newcomer"));
    EXPECT_EQ(witness.get("key").value_or(""), "value of a newcomer");
  }
  EXPECT_TRUE(becomes_true([&] { return witness.stat().value().connections == connections_before; }));
  EXPECT_TRUE(becomes_true([&] { return descriptors_of(server) == descriptors_before; }));
  // What the first ones took serves the next ones.
  Crowd next(node.tcp_address(), size / 3, of_one_process);
  ASSERT_TRUE(next.is_there()) << node.errors();
  EXPECT_LT(private_bytes(server), bytes_most + 4 * kMiB + sanitizer_bytes());
  EXPECT_EQ(witness.get("key").value_or(""), "value of a newcomer");
  EXPECT_EQ(witness.counters().server_losses, 0U);
  EXPECT_EQ(node.server(), server);
}

TEST(Crowd, a_client_too_many_is_told_so_and_let_in_when_another_leaves) {
  Node node({.arguments = {"--listen-address", "127.0.0.1:0", "--clients-max", "4"}});
  ASSERT_TRUE(node.is_up()) << node.errors();
  std::vector<Client> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(node.connect_tcp());
    ASSERT_TRUE(clients.back().put("key", "value"));
  }
  const auto refused = Client::connect("tcp:" + node.tcp_address());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kOverloaded) << refused.error().to_string();
  EXPECT_NE(refused.error().what.find("4 TCP connections, its maximum"), std::string::npos)
      << refused.error().to_string();
  EXPECT_FALSE(refused.error().next.empty());
  // Shared memory has places of its own.
  EXPECT_EQ(node.connect().get("key").value_or(""), "value");
  for (Client& client : clients) EXPECT_EQ(client.get("key").value_or(""), "value");
  clients.pop_back();
  EXPECT_TRUE(becomes_true([&] { return Client::connect("tcp:" + node.tcp_address()).has_value(); }));
}

// Clients that all come to one shard use up that shard's places, and leave the others' alone.
TEST(Crowd, the_maximum_is_that_of_each_shard) {
  Node node({.arguments = {"--listen-address", "127.0.0.1:0", "--clients-max", "3", "--server-shards", "4"}});
  ASSERT_TRUE(node.is_up()) << node.errors();
  std::vector<HandmadeClient> clients;
  for (uint32_t shard = 0; shard < 4; ++shard) {
    for (uint64_t i = 0; i < 3; ++i) {
      HandmadeClient& client = clients.emplace_back(node.tcp_address());
      ASSERT_TRUE(client.shake_hands({.shard = shard}));
      ASSERT_TRUE(client.send_all(get_frame(i, "key")));
      ASSERT_TRUE(client.wait_for_reply()) << "let in, and closed";
    }
    HandmadeClient one_more(node.tcp_address());
    const auto refused = one_more.shake_hands({.shard = shard});
    ASSERT_FALSE(refused) << "shard " << shard;
    EXPECT_EQ(refused.error().code, Code::kOverloaded) << refused.error().to_string();
  }
}

}  // namespace
}  // namespace refract::test
