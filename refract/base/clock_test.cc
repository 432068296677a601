// SPDX-License-Identifier: Apache-2.0
#include "refract/base/clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "refract/base/units.h"

namespace refract {
namespace {

TEST(SystemClock, never_goes_back) {
  uint64_t before = system_clock().now_ns();
  for (int look = 0; look < 10'000; ++look) {
    const uint64_t now = system_clock().now_ns();
    ASSERT_GE(now, before);
    before = now;
  }
}

TEST(SystemClock, has_a_wall_clock_of_this_century) {
  const uint64_t year_ns = 365 * 24 * 3600 * kSecond_ns;
  EXPECT_GT(system_clock().wall_ns(), 50 * year_ns);
  EXPECT_LT(system_clock().wall_ns(), 130 * year_ns);
}

TEST(ManualClock, moves_only_by_hand) {
  ManualClock clock;
  EXPECT_EQ(clock.now_ns(), 0u);
  clock.advance_ns(kSecond_ns);
  clock.advance_ns(1);
  EXPECT_EQ(clock.now_ns(), kSecond_ns + 1);
  const uint64_t wall = clock.wall_ns();
  clock.set_now_ns(5 * kSecond_ns);
  EXPECT_EQ(clock.wall_ns() - wall, 4 * kSecond_ns - 1);
  clock.set_wall_offset_ns(7);
  EXPECT_EQ(clock.wall_ns(), 5 * kSecond_ns + 7);
}

TEST(Units, round_up_to_the_next_multiple) {
  EXPECT_EQ(round_up(0, 64), 0u);
  EXPECT_EQ(round_up(1, 64), 64u);
  EXPECT_EQ(round_up(64, 64), 64u);
  EXPECT_EQ(round_up(65, 64), 128u);
  EXPECT_EQ(round_up(10, 3), 12u);
  static_assert(kGiB == 1u << 30 && kSecond_ns == 1000 * kMillisecond_ns &&
                kMillisecond_ns == 1000 * kMicrosecond_ns);
}

TEST(Clock, processor_time_grows_with_work_and_not_with_sleep) {
  const uint64_t begun = thread_cpu_ns();
  uint64_t word = 1;
  while (thread_cpu_ns() - begun < 1'000'000) word = word * 6364136223846793005 + 1;
  EXPECT_NE(word, 1u);
  const uint64_t slept_from = thread_cpu_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LT(thread_cpu_ns() - slept_from, 40'000'000u);
}

}  // namespace
}  // namespace refract
