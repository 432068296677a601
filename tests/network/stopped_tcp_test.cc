// SPDX-License-Identifier: Apache-2.0
// A server that is stopped under clients on sockets: calls end at their deadlines, and all continues where it
// was when the server does.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/network/callers.h"
#include "tests/process/node_process.h"

#include "refract/base/units.h"

namespace refract::test {
namespace {

TEST(StoppedOverTcp, calls_end_at_their_deadlines_and_all_answers_have_an_order) {
  constexpr uint64_t kTimeout_ns = 150 * kMillisecond_ns;
  Node node({.arguments = {"--listen-address", "127.0.0.1:0", "--server-shards", "2"}});
  ASSERT_TRUE(node.is_up()) << node.errors();
  const std::string address = "tcp:" + node.tcp_address();
  const uint64_t seed = secure_random_u64();
  std::printf("callers from seed %llu\n", static_cast<unsigned long long>(seed));
  Scene scene;
  std::vector<std::unique_ptr<Caller>> callers;
  for (uint64_t i = 0; i < 6; ++i) {
    const bool is_patient = i % 2 == 0;
    callers.push_back(std::make_unique<Caller>(
        scene, CallerOptions{.name = (is_patient ? "patient " : "impatient ") + std::to_string(i),
                             .address = address,
                             .client = {.timeout_ns = is_patient ? kPatience_ns : kTimeout_ns},
                             .seed = seed + i,
                             .is_patient = is_patient}));
  }
  const auto all_reach = [&](auto count, uint64_t more) {
    std::vector<uint64_t> goals;
    for (const auto& caller : callers) goals.push_back(count(*caller) + more);
    return becomes_true([&] {
      if (!scene.complaint().empty()) return true;
      for (size_t i = 0; i < callers.size(); ++i) {
        if (count(*callers[i]) < goals[i]) return false;
      }
      return true;
    });
  };
  const auto answered = [](const Caller& caller) { return caller.answered(); };
  const pid_t server = node.server();
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(all_reach(answered, 100)) << "no client continues";
    send_signal(server, SIGSTOP);
    ASSERT_TRUE(becomes_true([&] { return state_of(server) == 'T'; }));
    // Several deadlines long, and until those calls ended, too, that the stop found under way.
    const uint64_t not_answered = scene.count_of(Code::kDeadlineExceeded);
    const uint64_t not_known = scene.count_of(Code::kIndeterminate);
    sleep_ms(400);
    EXPECT_TRUE(becomes_true([&] {
      return scene.count_of(Code::kDeadlineExceeded) + scene.count_of(Code::kIndeterminate) >=
             not_answered + not_known + 3;
    }));
    const auto newcomer = Client::connect(address, {.timeout_ns = kTimeout_ns});
    ASSERT_FALSE(newcomer);
    EXPECT_TRUE(newcomer.error().code == Code::kDeadlineExceeded ||
                newcomer.error().code == Code::kUnavailable)
        << newcomer.error().to_string();
    EXPECT_FALSE(newcomer.error().what.empty());
    send_signal(server, SIGCONT);
  }
  ASSERT_TRUE(all_reach(answered, 100)) << "no client continues";
  for (const auto& caller : callers) {
    caller->stop();
    EXPECT_EQ(caller->counters().server_losses, 0U);
  }
  callers.front()->read_all();
  std::printf("%zu operations: %s\n", scene.operations(), scene.codes().c_str());
  EXPECT_EQ(scene.complaint(), "");
  EXPECT_EQ(scene.contradiction(/*has_one_shard=*/false), "");
  EXPECT_EQ(node.server(), server);
  EXPECT_EQ(node.stop(), 0);
}

}  // namespace
}  // namespace refract::test
