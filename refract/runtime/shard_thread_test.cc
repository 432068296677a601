// SPDX-License-Identifier: Apache-2.0
// A shard on a thread of its own runs, is stopped from outside, and takes the process along when it ends.
#include "refract/runtime/shard_thread.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <string>

#include "refract/base/clock.h"
#include "refract/runtime/shard.h"

namespace refract::runtime {
namespace {

std::string name_of_this_thread() {
  std::array<char, 16> name{};
  pthread_getname_np(pthread_self(), name.data(), name.size());
  return name.data();
}

TEST(ShardThread, runs_a_shard_until_another_thread_stops_it) {
  Shard shard(system_clock());
  std::atomic<int> ended_with = -1;
  {
    const auto thread =
        ShardThread::start({.name = "shard", .on_end = [&](int code) { ended_with = code; }}, [&] {
          shard.run();
          return 5;
        });
    ASSERT_TRUE(thread) << thread.error().to_string();
    EXPECT_EQ(ended_with, -1) << "not stopped yet";
    shard.stop();
  }
  EXPECT_EQ(ended_with, 5) << "the destructor waits for the end";
}

TEST(ShardThread, has_its_name_and_no_signals) {
  std::string name;
  int blocked = 0;
  {
    const auto thread = ShardThread::start({.name = "refractd/12 and more", .on_end = [](int) {}}, [&] {
      name = name_of_this_thread();
      sigset_t set;
      pthread_sigmask(SIG_SETMASK, nullptr, &set);
      blocked = sigismember(&set, SIGTERM);
      return 0;
    });
    ASSERT_TRUE(thread) << thread.error().to_string();
  }
  EXPECT_EQ(name, "refractd/12 and");
  EXPECT_EQ(blocked, 1);
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_EQ(sigismember(&own, SIGTERM), 0) << "the starter's mask is its own again";
}

TEST(ShardThread, binds_itself_alone_to_a_cpu) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  uint32_t first = 0;
  while (!CPU_ISSET(first, &allowed)) ++first;
  cpu_set_t bound;
  CPU_ZERO(&bound);
  std::string refused;
  {
    const auto thread = ShardThread::start({.name = "shard", .on_end = [](int) {}}, [&] {
      EXPECT_TRUE(bind_this_thread(first));
      sched_getaffinity(0, sizeof(bound), &bound);
      const Reported<> wrong = bind_this_thread(UINT_MAX);
      if (!wrong) refused = wrong.error().what;
      return 0;
    });
    ASSERT_TRUE(thread) << thread.error().to_string();
  }
  EXPECT_EQ(CPU_COUNT(&bound), 1);
  EXPECT_TRUE(CPU_ISSET(first, &bound));
  EXPECT_NE(refused.find("CPU 4294967295"), std::string::npos) << refused;
  cpu_set_t after;
  CPU_ZERO(&after);
  sched_getaffinity(0, sizeof(after), &after);
  EXPECT_TRUE(CPU_EQUAL(&allowed, &after));
}

TEST(ShardThread, runs_anywhere_though_its_starter_is_bound) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  uint32_t first = 0;
  while (!CPU_ISSET(first, &allowed)) ++first;
  cpu_set_t beside;
  CPU_ZERO(&beside);
  {
    const auto thread = ShardThread::start({.name = "shard", .on_end = [](int) {}}, [&] {
      EXPECT_TRUE(bind_this_thread(first));
      EXPECT_TRUE(bind_this_thread(first));
      const auto helper = ShardThread::start({.name = "beside", .on_end = [](int) {}}, [&] {
        sched_getaffinity(0, sizeof(beside), &beside);
        return 0;
      });
      EXPECT_TRUE(helper);
      return 0;
    });
    ASSERT_TRUE(thread) << thread.error().to_string();
  }
  EXPECT_TRUE(CPU_EQUAL(&allowed, &beside));
}

TEST(ShardThread, gives_way_alone) {
  const int before = getpriority(PRIO_PROCESS, 0);
  int niceness = -1;
  {
    const auto thread = ShardThread::start({.name = "slow", .on_end = [](int) {}, .niceness = 10}, [&] {
      niceness = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
      return 0;
    });
    ASSERT_TRUE(thread) << thread.error().to_string();
  }
  EXPECT_EQ(niceness, std::min(before + 10, 19));
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), before);
}

TEST(ShardThread, keeps_to_idle_time_alone) {
  const int before = sched_getscheduler(0);
  int policy = -1;
  {
    const auto thread = ShardThread::start({.name = "idle", .on_end = [](int) {}, .in_idle_time = true}, [&] {
      policy = sched_getscheduler(0);
      return 0;
    });
    ASSERT_TRUE(thread) << thread.error().to_string();
  }
  EXPECT_EQ(policy, SCHED_IDLE);
  EXPECT_EQ(sched_getscheduler(0), before);
}

// In a process of the test's own, since that is what ends.
TEST(ShardThreadDeathTest, its_end_is_the_processs_end) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        Shard waits_for_ever(system_clock());
        const auto thread = ShardThread::start({.name = "shard"}, [] { return 7; });
        waits_for_ever.run();
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace refract::runtime
