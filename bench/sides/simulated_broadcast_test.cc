// SPDX-License-Identifier: Apache-2.0
// A simulated broadcast brings all bytes to all in about the time of one pull, most of them from other
// receivers.
#include "bench/sides/simulated_broadcast.h"

#include <gtest/gtest.h>

namespace refract::bench {
namespace {

double ratio_of(const BroadcastTimes& times) {
  return static_cast<double>(times.all_ns) / static_cast<double>(times.one_ns);
}

// simulate_broadcast() compares all bytes.
TEST(SimulatedBroadcast, eight_nodes_have_it_in_about_the_time_of_one_pull) {
  const BroadcastTestbed testbed{.receivers = 8, .bytes = 16 * kMiB};
  const Reported<BroadcastTimes> times = simulate_broadcast(testbed);
  ASSERT_TRUE(times.has_value()) << times.error().to_string();
  // A byte takes a nanosecond through a port.
  EXPECT_GE(times->one_ns, testbed.bytes);
  EXPECT_LE(times->one_ns, testbed.bytes / 10 * 11);
  EXPECT_LE(ratio_of(*times), 1.2);
  EXPECT_EQ(times->given, 1U);
}

TEST(SimulatedBroadcast, takes_longer_where_requests_wait_behind_pieces) {
  BroadcastTestbed testbed{.receivers = 8, .bytes = 4 * kMiB};
  const Reported<BroadcastTimes> between = simulate_broadcast(testbed);
  testbed.interleaves = false;
  const Reported<BroadcastTimes> behind = simulate_broadcast(testbed);
  ASSERT_TRUE(between.has_value() && behind.has_value());
  EXPECT_GT(ratio_of(*behind), 1.5 * ratio_of(*between));
}

TEST(SimulatedBroadcast, is_the_same_in_each_run) {
  const BroadcastTestbed testbed{.receivers = 3, .bytes = kMiB + 1};
  const Reported<BroadcastTimes> first = simulate_broadcast(testbed);
  const Reported<BroadcastTimes> second = simulate_broadcast(testbed);
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(first->one_ns, second->one_ns);
  EXPECT_EQ(first->all_ns, second->all_ns);
}

}  // namespace
}  // namespace refract::bench
