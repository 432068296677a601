// SPDX-License-Identifier: Apache-2.0
// An idle node uses no processor time, in each configuration, with and without entries that expire one day.
//
// All nodes are measured at once, in windows, and each must be idle in one of them: whatever still settles
// down on a slow machine does so in another. A thread that looks for work each millisecond wakes up 2,000
// times in every window, and one that does so each 100 ms 20 times.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/process/configurations.h"

#include "refract/base/units.h"

namespace refract::test {
namespace {

constexpr uint64_t kWindow_ms = 2'000;
constexpr uint64_t kWakeUpsMax = 15;
// Ten times the bar of refract-bench: what some wake-ups cost where memory and caches are slow.
constexpr uint64_t kCpuMax_ns = 10 * kMillisecond_ns * kWindow_ms / 1'000;
constexpr int kWindowsMax = 15;

struct IdleNode {
  std::string name;
  std::unique_ptr<ConfiguredStore> store;
  std::vector<Client> clients = {};
  ProcessUse before = {};
  std::string last = {};  // What it took in the last window.

  [[nodiscard]] ProcessUse use() const {
    const ProcessUse keeper = use_of(store->node().keeper());
    const ProcessUse server = use_of(store->node().server());
    return {.cpu_ns = keeper.cpu_ns + server.cpu_ns, .wake_ups = keeper.wake_ups + server.wake_ups};
  }
};

// With what leaves something behind: calls of all kinds, over all ways that lead there.
void work_with(IdleNode& idle) {
  Client& client = idle.clients.front();
  for (int i = 0; i < 50; ++i) {
    const std::string key = "key" + std::to_string(i);
    ASSERT_TRUE(client.put(key, "value"));
    ASSERT_TRUE(client.put(key, std::string(20'000, 'v')));
    ASSERT_TRUE(client.get(key));
    if (i % 5 != 0) continue;
    ASSERT_TRUE(client.erase(key));
  }
  ASSERT_TRUE(idle.clients.back().ping());
}

bool was_idle(IdleNode& idle) {
  const ProcessUse now = idle.use();
  const uint64_t cpu_ns = now.cpu_ns - idle.before.cpu_ns;
  const uint64_t wake_ups = now.wake_ups - idle.before.wake_ups;
  idle.last = fmt::format("{} us of processor time and {} wake-ups in {} ms", cpu_ns / kMicrosecond_ns,
                          wake_ups, kWindow_ms);
  return cpu_ns <= kCpuMax_ns && wake_ups <= kWakeUpsMax;
}

// Empty: each was idle in a window. Else what those that were not took in the last one.
std::string trouble_of(std::span<IdleNode> nodes) {
  std::vector<IdleNode*> left;
  for (IdleNode& idle : nodes) left.push_back(&idle);
  for (int window = 0; window < kWindowsMax && !left.empty(); ++window) {
    for (IdleNode* const idle : left) idle->before = idle->use();
    sleep_ms(kWindow_ms);
    std::erase_if(left, [](IdleNode* idle) { return was_idle(*idle); });
  }
  std::string trouble;
  for (const IdleNode* const idle : left) trouble += fmt::format("{} took {}\n", idle->name, idle->last);
  return trouble;
}

TEST(Idle, node_takes_no_processor_time_in_any_configuration) {
  std::vector<IdleNode> nodes;
  for (const Configuration& configuration : configurations()) {
    IdleNode idle{.name = configuration.name, .store = std::make_unique<ConfiguredStore>(configuration)};
    ASSERT_NO_FATAL_FAILURE(idle.store->start());
    idle.clients.push_back(idle.store->connect());
    idle.clients.push_back(idle.store->node().connect());
    ASSERT_NO_FATAL_FAILURE(work_with(idle)) << idle.name;
    nodes.push_back(std::move(idle));
  }
  EXPECT_EQ(trouble_of(nodes), "");
  for (IdleNode& idle : nodes) {
    ASSERT_TRUE(idle.clients.front().put("an hour", "value", {.ttl_ns = 3'600 * kSecond_ns}));
    ASSERT_TRUE(idle.clients.front().put("a day", "value", {.ttl_ns = 86'400 * kSecond_ns}));
  }
  EXPECT_EQ(trouble_of(nodes), "") << "with entries that expire one day";
}

// The measure itself: what polls is seen.
TEST(Idle, a_process_that_looks_each_millisecond_is_found_out) {
  Process poller = Process::run([] {
    while (true) sleep_ms(1);
    return 0;
  });
  const ProcessUse before = use_of(poller.pid());
  EXPECT_TRUE(becomes_true([&] { return use_of(poller.pid()).wake_ups - before.wake_ups > kWakeUpsMax; }));
  EXPECT_GT(use_of(poller.pid()).cpu_ns, before.cpu_ns);
}

}  // namespace
}  // namespace refract::test
