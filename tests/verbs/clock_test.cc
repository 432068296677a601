// SPDX-License-Identifier: Apache-2.0
// The wall clock of the machine is set forward and back under a running node. Only ever in the machine: on a
// host it would set the clock of all processes.
#include <gtest/gtest.h>
#include <signal.h>
#include <time.h>

#include <cstdlib>
#include <string>

#include "tests/process/node_process.h"

namespace refract::test {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr int64_t kDay_s = 24 * 3600;
constexpr uint64_t kLong_ns = 3600 * kSecond;
constexpr uint64_t kShort_ns = 2 * kSecond;

bool is_in_the_machine() {
  return std::getenv("REFRACT_VERBS_FAMILY") != nullptr;
}

void step_wall_clock(int64_t by_s) {
  timespec now{};
  ASSERT_EQ(clock_gettime(CLOCK_REALTIME, &now), 0);
  now.tv_sec += by_s;
  ASSERT_EQ(clock_settime(CLOCK_REALTIME, &now), 0) << "only root may";
}

// A later test finds the time as it was.
class ClockTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(is_in_the_machine()) << "run it with scripts/verbs-tests"; }
  void TearDown() override {
    if (stepped_s_ != 0) step_wall_clock(-stepped_s_);
  }
  void step(int64_t by_s) {
    step_wall_clock(by_s);
    stepped_s_ += by_s;
  }

 private:
  int64_t stepped_s_ = 0;
};

NodeOptions lazy(std::vector<std::string> further = {}) {
  // No sweep runs meanwhile: what is gone is gone because its time is over.
  NodeOptions options{.arguments = {"--listen-address", "127.0.0.1:0", "--restart-backoff", "0ns",
                                    "--memory-limit", "128MiB", "--ttl-sweep", "24h"}};
  options.arguments.insert(options.arguments.end(), further.begin(), further.end());
  return options;
}

void expect_alive(Client& near, Client& far, const std::string& key, const std::string& when) {
  EXPECT_TRUE(near.get(key)) << key << " " << when << ", read directly";
  EXPECT_TRUE(far.get(key)) << key << " " << when << ", over TCP";
}
void expect_gone(Client& near, Client& far, const std::string& key, const std::string& when) {
  EXPECT_EQ(near.get(key).code(), Code::kNotFound) << key << " " << when << ", read directly";
  EXPECT_EQ(far.get(key).code(), Code::kNotFound) << key << " " << when << ", over TCP";
}

TEST_F(ClockTest, steps_neither_revive_an_entry_nor_end_it_early) {
  Node node(lazy());
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client near = node.connect();
  Client far = node.connect_tcp();
  ASSERT_TRUE(near.put("long", "value", {.ttl_ns = kLong_ns}));
  ASSERT_TRUE(near.put("short", "value", {.ttl_ns = kShort_ns}));
  ASSERT_TRUE(becomes_true([&] { return near.get("short").code() == Code::kNotFound; }));
  step(-kDay_s);
  expect_gone(near, far, "short", "after a step back");
  expect_alive(near, far, "long", "after a step back");
  step(3 * kDay_s);
  expect_gone(near, far, "short", "after a step forward");
  expect_alive(near, far, "long", "after a step forward");
  ASSERT_TRUE(far.put("later", "value", {.ttl_ns = kLong_ns}));
  step(-kDay_s);
  expect_alive(near, far, "later", "stored between two steps");
  const pid_t server = node.server();
  send_signal(server, SIGKILL);
  ASSERT_GT(node.next_server(server), 0);
  ASSERT_TRUE(becomes_true([&] { return far.ping().has_value(); }));
  Client again = node.connect();
  expect_alive(again, far, "long", "after a restart of the server");
  expect_gone(again, far, "short", "after a restart of the server");
  EXPECT_EQ(node.stop(), 0);
}

TEST_F(ClockTest, steps_while_the_node_is_stopped_change_nothing_for_regions_in_files) {
  TemporaryFolder folder;
  const std::vector<std::string> in_files{"--memory-backing", "file:" + folder.path()};
  {
    Node node(lazy(in_files));
    ASSERT_TRUE(node.is_up()) << node.errors();
    Client near = node.connect();
    ASSERT_TRUE(near.put("long", "value", {.ttl_ns = kLong_ns}));
    ASSERT_TRUE(near.put("short", "value", {.ttl_ns = kShort_ns}));
    ASSERT_TRUE(becomes_true([&] { return near.get("short").code() == Code::kNotFound; }));
    EXPECT_EQ(node.stop(), 0);
  }
  step(2 * kDay_s);
  {
    Node node(lazy(in_files));
    ASSERT_TRUE(node.is_up()) << node.errors();
    Client near = node.connect();
    Client far = node.connect_tcp();
    expect_alive(near, far, "long", "after a stop and a step forward");
    expect_gone(near, far, "short", "after a stop and a step forward");
    EXPECT_EQ(node.stop(), 0);
  }
  step(-4 * kDay_s);
  Node node(lazy(in_files));
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client near = node.connect();
  Client far = node.connect_tcp();
  expect_alive(near, far, "long", "after a stop and a step back");
  expect_gone(near, far, "short", "after a stop and a step back");
  EXPECT_EQ(node.stop(), 0);
}

}  // namespace
}  // namespace refract::test
