// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/store_time.h"

#include <gtest/gtest.h>

#include "refract/base/units.h"

namespace refract {
namespace {

constexpr uint64_t kDay_ns = uint64_t{24} * 3600 * kSecond_ns;
constexpr BootId kBoot{std::byte{1}};
constexpr BootId kNextBoot{std::byte{2}};

// A host whose clocks are moved one by one.
struct HostClock final : Clock {
  [[nodiscard]] uint64_t now_ns() const noexcept override { return running_ns; }
  [[nodiscard]] uint64_t boot_ns() const noexcept override { return running_ns + suspended_ns; }
  [[nodiscard]] uint64_t wall_ns() const noexcept override { return wall; }
  void pass(uint64_t ns) noexcept {
    running_ns += ns;
    wall += ns;
  }
  void suspend(uint64_t ns) noexcept {
    suspended_ns += ns;
    wall += ns;
  }
  void reboot(uint64_t ns) noexcept {
    wall += ns;
    running_ns = 3 * kSecond_ns;
    suspended_ns = 0;
  }
  uint64_t running_ns = 1000 * kSecond_ns;
  uint64_t suspended_ns = 0;
  uint64_t wall = 20'000 * kDay_ns;
};

uint64_t store_ns(const SpaceTime& time, const Clock& host) {
  return StoreClock(host, time.offset_ns).wall_ns();
}

TEST(StoreTime, begins_as_the_wall_clock) {
  HostClock host;
  EXPECT_EQ(store_ns(begin_time(host, kBoot), host), host.wall);
}

TEST(StoreTime, does_not_follow_steps_of_the_wall_clock) {
  HostClock host;
  const SpaceTime time = begin_time(host, kBoot);
  const uint64_t begun = store_ns(time, host);
  host.pass(5 * kSecond_ns);
  host.wall -= kDay_ns;
  EXPECT_EQ(store_ns(time, host), begun + 5 * kSecond_ns);
  host.wall += 3 * kDay_ns;
  EXPECT_EQ(store_ns(time, host), begun + 5 * kSecond_ns);
}

TEST(StoreTime, goes_on_while_the_machine_is_suspended) {
  HostClock host;
  const SpaceTime time = begin_time(host, kBoot);
  const uint64_t begun = store_ns(time, host);
  host.suspend(kDay_ns);
  EXPECT_EQ(store_ns(time, host), begun + kDay_ns);
}

TEST(StoreTime, is_the_same_after_a_restart_in_one_boot_whatever_the_wall_clock_says) {
  HostClock host;
  SpaceTime time = begin_time(host, kBoot);
  const uint64_t begun = store_ns(time, host);
  time = leave_time(time, host);
  host.pass(60 * kSecond_ns);
  host.wall += 400 * kDay_ns;
  time = resume_time(time, host, kBoot);
  EXPECT_EQ(store_ns(time, host), begun + 60 * kSecond_ns);
}

TEST(StoreTime, counts_how_long_the_host_was_off) {
  HostClock host;
  // The clock was wrong when the store was made, and has been set right since.
  host.wall = kDay_ns;
  SpaceTime time = begin_time(host, kBoot);
  host.wall = 20'000 * kDay_ns;
  time = leave_time(time, host);
  const uint64_t left = store_ns(time, host);
  host.reboot(7 * kDay_ns);
  time = resume_time(time, host, kNextBoot);
  EXPECT_EQ(store_ns(time, host), left + 7 * kDay_ns);
}

TEST(StoreTime, never_goes_back_where_the_clock_forgot_the_time_while_the_host_was_off) {
  HostClock host;
  SpaceTime time = leave_time(begin_time(host, kBoot), host);
  const uint64_t left = store_ns(time, host);
  host.reboot(0);
  host.wall = kDay_ns;
  time = resume_time(time, host, kNextBoot);
  EXPECT_EQ(store_ns(time, host), left);
}

TEST(StoreTime, of_a_store_that_another_boot_left_unsaid_is_the_wall_clock) {
  HostClock host;
  SpaceTime time = begin_time(host, kBoot);
  host.reboot(kDay_ns);
  time = resume_time(time, host, kNextBoot);
  EXPECT_EQ(store_ns(time, host), host.wall);
}

TEST(StoreTime, of_a_store_that_was_stopped_and_taken_up_again_before_the_host_died_is_the_wall_clock) {
  HostClock host;
  SpaceTime time = resume_time(leave_time(begin_time(host, kBoot), host), host, kBoot);
  host.wall += kDay_ns;
  host.reboot(kDay_ns);
  time = resume_time(time, host, kNextBoot);
  EXPECT_EQ(store_ns(time, host), host.wall);
}

TEST(StoreTime, of_an_old_space_is_the_wall_clock_and_steps_no_more_once_it_was_taken_up) {
  HostClock host;
  EXPECT_EQ(store_ns({}, host), host.wall);
  const SpaceTime time = resume_time({}, host, kBoot);
  const uint64_t before = host.wall;
  host.wall += kDay_ns;
  EXPECT_EQ(store_ns(time, host), before);
}

TEST(StoreTime, runs_by_itself_where_the_hosts_clock_does) {
  EXPECT_TRUE(StoreClock(system_clock(), kDay_ns).runs_by_itself());
  const ManualClock by_hand;
  EXPECT_FALSE(StoreClock(by_hand, kDay_ns).runs_by_itself());
}

TEST(StoreTime, without_a_boots_id_goes_on_from_where_it_was_left) {
  HostClock host;
  SpaceTime time = leave_time(begin_time(host, std::nullopt), host);
  const uint64_t left = store_ns(time, host);
  host.pass(9 * kSecond_ns);
  time = resume_time(time, host, std::nullopt);
  EXPECT_EQ(store_ns(time, host), left + 9 * kSecond_ns);
}

TEST(StoreTime, of_this_machine_runs_with_the_systems_clocks) {
  const std::optional<BootId> boot = host_boot_id();
  const SpaceTime time = begin_time(system_clock(), boot);
  const uint64_t before = store_ns(time, system_clock());
  EXPECT_GE(store_ns(resume_time(time, system_clock(), boot), system_clock()), before);
}

}  // namespace
}  // namespace refract
