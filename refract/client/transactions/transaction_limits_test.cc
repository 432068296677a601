// SPDX-License-Identifier: Apache-2.0
// When a transaction ends: with the reads that it was given, after its time, and behind a node that is gone.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "refract/base/units.h"
#include "refract/client/testing/test_node.h"
#include "refract/client/transactions/batch.h"
#include "refract/client/transactions/transaction.h"

namespace refract::transaction_limits_test {
namespace {

using test::needed;
using test::server_of;
using test::TestNode;

// Far from each other, so that a slow machine does not take one for the other.
const ClientOptions kPatient{.timeout_ns = 60 * kSecond_ns};
constexpr TransactionOptions kBrief{.timeout_ns = 200 * kMillisecond_ns};
constexpr auto kLong = std::chrono::seconds(30);

class Limits : public testing::TestWithParam<int> {
 protected:
  [[nodiscard]] Client far(const ClientOptions& options = {}) const {
    return TestNode::connect_to("tcp:" + node_.tcp(), options);
  }
  static std::string key(int i) { return "key " + std::to_string(i); }

  TestNode node_{{"--server-shards", std::to_string(GetParam()), "--listen-address", "127.0.0.1:0"}};
};
INSTANTIATE_TEST_SUITE_P(Shards, Limits, testing::Values(1, 3), testing::PrintToStringParamName());

// What was held for one run of a body is not for the next one, which would be overtaken on it for ever.
TEST_P(Limits, what_is_known_is_for_one_run) {
  Client client = node_.connect();
  Client other = node_.connect();
  ASSERT_TRUE(client.put("a", "0"));
  ASSERT_TRUE(client.put("b", "0"));
  int runs = 0;
  const Result<> done = client.transaction([&](Transaction& t) -> Result<> {
    ++runs;
    const std::string a = needed(t.get("a"));
    const std::string b = needed(t.get("b"));
    if (runs <= 4) {
      EXPECT_TRUE(other.put("a", std::to_string(runs)));
      return t.validate();
    }
    // The first run on what is known is overtaken, too.
    if (runs == 5) {
      EXPECT_EQ(a, "4");
      EXPECT_TRUE(other.put("a", "final"));
    }
    return t.put("b", a);
  });
  EXPECT_EQ(done.code(), Code::kOk);
  EXPECT_EQ(runs, 6);
  EXPECT_EQ(needed(client.get("b")), "final");
}

// A body that writes only, so that it asks for nothing itself.
TEST_P(Limits, the_time_of_a_transaction_is_that_of_its_commit_too) {
  const pid_t server = server_of(node_.connect());
  ASSERT_GT(server, 0);
  for (const bool is_far : {false, true}) {
    Client client = is_far ? far(kPatient) : node_.connect(kPatient);
    ASSERT_TRUE(client.ping());
    for (const int keys : {1, 2, 8}) {
      ASSERT_EQ(::kill(server, SIGSTOP), 0);
      ASSERT_TRUE(test::becomes_true([&] { return test::state_of(server) == 'T'; }));
      // Its other threads stop a moment later.
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const auto begun = std::chrono::steady_clock::now();
      const Result<> done = client.transaction(
          [&](Transaction& t) -> Result<> {
            for (int i = 0; i < keys; ++i) {
              if (const auto put = t.put(key(i), "1"); !put) return put;
            }
            return {};
          },
          kBrief);
      EXPECT_FALSE(done);
      EXPECT_LT(std::chrono::steady_clock::now() - begun, kLong) << keys << " keys";
      ASSERT_EQ(::kill(server, SIGCONT), 0);
    }
  }
}

TEST_P(Limits, a_body_that_takes_longer_is_committed_all_the_same) {
  Client client = node_.connect();
  for (const int keys : {1, 2, 8}) {
    const Result<> done = client.transaction(
        [&](Transaction& t) -> Result<> {
          std::this_thread::sleep_for(std::chrono::milliseconds(250));
          for (int i = 0; i < keys; ++i) {
            if (const auto put = t.put(key(i), "late"); !put) return put;
          }
          return {};
        },
        {.timeout_ns = 200 * kMillisecond_ns});
    EXPECT_EQ(done.code(), Code::kOk);
    EXPECT_EQ(needed(client.get(key(keys - 1))), "late");
  }
}

// What it has read may never have stood together, so that its own error says nothing.
TEST_P(Limits, an_error_of_a_body_whose_reads_are_not_proven_does_not_count) {
  Client client = far({.timeout_ns = kSecond_ns});
  ASSERT_TRUE(client.put("a", "1"));
  ASSERT_TRUE(client.put("b", "1"));
  const Result<> done = client.transaction([&](Transaction& t) -> Result<> {
    EXPECT_TRUE(t.get("a"));
    EXPECT_TRUE(t.get("b"));
    node_.kill_everything();
    return fail(Code::kInvalidArgument);
  });
  EXPECT_EQ(done.code(), Code::kUnavailable);
}

}  // namespace
}  // namespace refract::transaction_limits_test
