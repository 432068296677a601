// SPDX-License-Identifier: Apache-2.0
// Clients that reach one node by devices, by TCP and by shared memory, on the same few keys at the same time,
// while its server is killed again and again: what all of them were told is judged by the checker.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/network/callers.h"
#include "tests/process/node_process.h"

#include "refract/base/prng.h"

namespace refract::test {
namespace {

class VerbsRivals : public testing::TestWithParam<int> {
 protected:
  void add(const std::string& name, const std::string& address) {
    callers_.push_back(std::make_unique<Caller>(scene_, CallerOptions{.name = name,
                                                                      .address = address,
                                                                      .client = {.timeout_ns = kPatience_ns},
                                                                      .seed = prng_.next(),
                                                                      .is_patient = true,
                                                                      .large_bytes = 30'000}));
  }
  uint64_t seed_ = secure_random_u64();
  Prng prng_{seed_};
  Scene scene_;
  std::vector<std::unique_ptr<Caller>> callers_;
};

TEST_P(VerbsRivals, are_told_what_one_order_of_all_their_calls_explains) {
  std::printf("callers from seed %llu\n", static_cast<unsigned long long>(seed_));
  Node node(
      {.arguments = {"--listen-address", "127.0.0.1:0", "--restart-limit", "1000", "--restart-backoff", "0ns",
                     "--memory-limit", "128MiB", "--server-shards", std::to_string(GetParam())}});
  ASSERT_TRUE(node.is_up()) << node.errors();
  add("by a device", "verbs:" + node.tcp_address());
  add("by another", "verbs:" + node.tcp_address());
  add("over TCP", "tcp:" + node.tcp_address());
  add("here", node.socket_path());
  ASSERT_TRUE(make_progress(scene_, callers_, 150)) << scene_.complaint() << "\n" << scene_.codes();
  for (int round = 0; round < 3; ++round) {
    const pid_t server = node.server();
    send_signal(server, SIGKILL);
    ASSERT_GT(node.next_server(server), 0);
    ASSERT_TRUE(make_progress(scene_, callers_, 60)) << scene_.complaint() << "\n" << scene_.codes();
  }
  for (const auto& caller : callers_) caller->stop();
  callers_.front()->read_all();
  EXPECT_EQ(scene_.complaint(), "");
  EXPECT_EQ(scene_.contradiction(/*has_one_shard=*/GetParam() == 1), "") << scene_.codes();
  EXPECT_GT(callers_.front()->counters().server_losses, 0u) << "the kills were not felt";
  std::printf("%zu operations: %s\n", scene_.operations(), scene_.codes().c_str());
  EXPECT_EQ(node.stop(), 0);
}

INSTANTIATE_TEST_SUITE_P(Shards, VerbsRivals, testing::Values(1, 2));

}  // namespace
}  // namespace refract::test
