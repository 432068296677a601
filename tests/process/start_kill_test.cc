// SPDX-License-Identifier: Apache-2.0
// A durable node is killed in the first moments of its start, of its end and of its recovery, again and
// again: the next start serves, with all that was acknowledged.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/told_writes.h"

#include "refract/base/prng.h"

namespace refract::test::start_kill_test {
namespace {

constexpr uint64_t kKeys = 200;
constexpr uint64_t kMoment_us = 200'000;

struct Case {
  const char* durability;
  const char* shards;
};

void PrintTo(const Case& given, std::ostream* out) {
  *out << given.durability << "_" << given.shards;
}

uint64_t rounds() {
  const char* const wanted = std::getenv("REFRACT_START_KILLS");
  return wanted == nullptr ? 5 : std::strtoull(wanted, nullptr, 10);
}

void sleep_us(uint64_t microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

class StartKills : public testing::TestWithParam<Case> {
 protected:
  [[nodiscard]] NodeOptions options() const {
    NodeOptions made =
        durable_node(folder_.path() + "/data", GetParam().durability, {"--server-shards", GetParam().shards});
    made.socket_path = folder_.path() + "/node.sock";
    return made;
  }

  // Started, written to as soon as it lets a client in, and killed within the first moments. Some of them are
  // short, so that the first steps of a start are met often.
  void kill_a_start() {
    NodeOptions begun = options();
    begun.waits = false;
    const uint64_t moment_us = prng_.below(prng_.chance(0.5) ? kMoment_us : kMoment_us / 5);
    Node node(begun);
    std::atomic<bool> is_over = false;
    std::thread killer([&] {
      sleep_us(moment_us);
      node.kill_everything();
      is_over = true;
    });
    std::optional<Client> client;
    while (!is_over) {
      if (!client) {
        if (auto met = Client::connect(begun.socket_path)) client.emplace(*std::move(met));
        if (!client) sleep_us(500);
      } else {
        (void)writes_.put(*client, prng_.below(kKeys), prng_.below(4'000));
      }
    }
    killer.join();
  }

  // It comes up, has everything, takes more, and ends in one of three ways.
  void expect_a_start() {
    Node node(options());
    ASSERT_TRUE(node.is_up()) << node.errors();
    Client client = node.connect();
    ASSERT_EQ(writes_.difference(client), "") << node.errors();
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(writes_.put(client, prng_.below(kKeys), prng_.below(2'000)))
          << info(writes_.code()).text << "\n"
          << node.errors();
    }
    const uint64_t end = prng_.below(3);
    if (end == 0) {
      ASSERT_EQ(node.stop(), 0) << node.errors();
    } else if (end == 1) {
      node.kill_everything();
    } else {
      // In the middle of its end.
      node.process().signal(SIGTERM);
      sleep_us(prng_.below(20'000));
      node.kill_everything();
    }
  }

  TemporaryFolder folder_;
  ToldWrites writes_;
  Prng prng_{static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed()) + 29};
};

TEST_P(StartKills, at_any_moment_cost_nothing_that_was_acknowledged_and_the_next_start_serves) {
  for (uint64_t round = 0; round < rounds(); ++round) {
    // Also several deaths in a row, and the folder's very first start.
    for (uint64_t deaths = prng_.below(2); deaths < 2; ++deaths) kill_a_start();
    ASSERT_NO_FATAL_FAILURE(expect_a_start()) << "round " << round;
  }
  EXPECT_GT(writes_.acknowledged(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Ways, StartKills,
                         testing::Values(Case{"everysec", "1"}, Case{"everysec", "4"}, Case{"always", "1"},
                                         Case{"always", "4"}),
                         [](const auto& given) { return testing::PrintToString(given.param); });

// While the memory grows, a segment of the log ends, and a snapshot is written.
class BusyKills : public testing::TestWithParam<const char*> {};

TEST_P(BusyKills, while_memory_grows_and_a_segment_ends_and_a_snapshot_is_written_cost_nothing) {
  TemporaryFolder folder;
  ToldWrites writes;
  Prng prng(static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed()) + 31);
  uint64_t written = 0;
  for (uint64_t life = 0; life < rounds(); ++life) {
    Node node(durable_node(folder.path() + "/data", GetParam(), {"--data-snapshot-every", "40ms"}));
    ASSERT_TRUE(node.is_up()) << node.errors();
    Client client = node.connect();
    ASSERT_EQ(writes.difference(client), "") << node.errors();
    std::atomic<bool> is_over = false;
    std::thread killer([&, moment_us = prng.below(400'000)] {
      sleep_us(moment_us);
      node.kill_everything();
      is_over = true;
    });
    while (!is_over) {
      const uint64_t bytes = prng.below(120'000);
      if (writes.put(client, prng.below(kKeys), bytes)) written += bytes;
    }
    killer.join();
  }
  EXPECT_GT(written, 0U);
}

INSTANTIATE_TEST_SUITE_P(Modes, BusyKills, testing::Values("everysec", "always"),
                         [](const auto& mode) { return std::string(mode.param); });

}  // namespace
}  // namespace refract::test::start_kill_test
