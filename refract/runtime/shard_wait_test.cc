// SPDX-License-Identifier: Apache-2.0
// How a shard waits, with real threads and the system's clock.
//
// Nothing here asserts that something is fast, except by bounds that only a shard which polls for ever would
// miss.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/trace_ring.h"
#include "refract/runtime/shard.h"

namespace refract::runtime {
namespace {

uint64_t thread_cpu_ns() {
  timespec used;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<uint64_t>(used.tv_sec) * kSecond_ns + static_cast<uint64_t>(used.tv_nsec);
}

std::future<void> run_beside(Shard& shard) {
  return std::async(std::launch::async, [&shard] { shard.run(); });
}
// Within a minute; else it is stopped, so that the test can end.
bool has_ended(const std::future<void>& run, Shard& shard) {
  const bool has_ended = run.wait_for(std::chrono::minutes(1)) == std::future_status::ready;
  if (!has_ended) shard.stop();
  return has_ended;
}

void ring(int event_fd) {
  const uint64_t one = 1;
  ASSERT_EQ(write(event_fd, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
}

Task<> sleep_once(Shard& shard, uint64_t ns) {
  co_await shard.sleep_for(ns);
}

TEST(ShardWait, uses_no_cpu_while_it_waits_for_a_timer) {
  Shard shard(system_clock());
  const uint64_t began_ns = system_clock().now_ns();
  const uint64_t cpu_before_ns = thread_cpu_ns();
  block_on(shard, sleep_once(shard, 300 * kMillisecond_ns));
  EXPECT_LT(thread_cpu_ns() - cpu_before_ns, 30 * kMillisecond_ns);
  EXPECT_GE(system_clock().now_ns() - began_ns, 300 * kMillisecond_ns);
  EXPECT_GE(shard.sleep_count(), 1u);
  EXPECT_LE(shard.sleep_count(), 5u);
}

// A store's clock is the host's with another origin of its wall time (memory/store_time.h).
class OffsetClock final : public Clock {
 public:
  [[nodiscard]] uint64_t now_ns() const noexcept override { return system_clock().now_ns() + kSecond_ns; }
  [[nodiscard]] uint64_t wall_ns() const noexcept override { return system_clock().wall_ns(); }
  [[nodiscard]] bool runs_by_itself() const noexcept override { return true; }
};

TEST(ShardWait, sleeps_as_long_by_a_clock_that_runs_with_the_systems) {
  const OffsetClock clock;
  Shard shard(clock);
  block_on(shard, sleep_once(shard, 300 * kMillisecond_ns));
  EXPECT_GE(shard.sleep_count(), 1u);
  EXPECT_LE(shard.sleep_count(), 5u) << "once a millisecond it would be 300";
}

TEST(ShardWait, has_no_periodic_wake_ups_with_nothing_in_flight) {
  Shard shard(system_clock());
  std::atomic<uint64_t> cpu_ns = 0;
  std::thread runner([&] {
    shard.run();
    cpu_ns = thread_cpu_ns();
  });
  const timespec third = {.tv_sec = 0, .tv_nsec = 300'000'000};
  nanosleep(&third, nullptr);
  shard.stop();
  runner.join();
  EXPECT_LT(cpu_ns, 30 * kMillisecond_ns);
  EXPECT_LE(shard.sleep_count(), 3u);
}

uint64_t g_asked = 0;

TEST(ShardWait, a_run_that_may_not_wait_longer_ends_before_it_sleeps) {
  Shard shard(system_clock());
  shard.ask_before_sleeping([]() -> uint64_t { return ++g_asked < 4 ? kMillisecond_ns : 0; });
  g_asked = 0;
  EXPECT_FALSE(shard.run_until([] { return false; }));
  EXPECT_EQ(g_asked, 4U);
  Task<> endless = sleep_once(shard, kForever_ns / 2);
  g_asked = 0;
  EXPECT_FALSE(has_run(shard, endless));
  endless = {};
  // This one has no question.
  g_asked = 0;
  block_on(shard, sleep_once(shard, 20 * kMillisecond_ns));
  EXPECT_EQ(g_asked, 0U);
  // It is not asked by a run that need not sleep, either.
  EXPECT_TRUE(shard.run_until([] { return true; }));
  EXPECT_EQ(g_asked, 0U);
}

// The last event of this thread that names a sleep.
std::string last_sleep_traced() {
  const std::string text = trace_text();
  const size_t at = text.rfind("shard sleeps");
  return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
}

TEST(ShardWait, the_trace_says_how_long_a_sleep_may_be_or_that_no_timer_ends_it) {
  Shard shard(system_clock());
  block_on(shard, sleep_once(shard, 20 * kMillisecond_ns));
  EXPECT_TRUE(last_sleep_traced().starts_with("shard sleeps, 0 operations in flight, at most ns "))
      << last_sleep_traced();
  std::thread stopper([&shard] {
    while (!last_sleep_traced().ends_with("no timer")) std::this_thread::yield();
    shard.stop();
  });
  shard.run();
  stopper.join();
  EXPECT_EQ(last_sleep_traced(), "shard sleeps, 0 operations in flight, no timer");
}

TEST(ShardWait, stops_before_it_runs_and_runs_again_after) {
  Shard shard(system_clock());
  shard.stop();
  std::future<void> first = run_beside(shard);
  EXPECT_TRUE(has_ended(first, shard));
  std::future<void> second = run_beside(shard);
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(10)), std::future_status::timeout)
      << "one stop() ends one run()";
  shard.stop();
  EXPECT_TRUE(has_ended(second, shard));
}

TEST(ShardWait, stop_is_never_lost) {
  Prng prng(5);
  Shard shard(system_clock(), {.spin_ns = 1'000});
  for (int round = 0; round < 300; ++round) {
    std::future<void> run = run_beside(shard);
    const timespec pause = {.tv_sec = 0, .tv_nsec = static_cast<long>(prng.below(100'000))};
    nanosleep(&pause, nullptr);
    shard.stop();
    ASSERT_TRUE(has_ended(run, shard)) << "round " << round;
  }
}

// Wakes the shard in its first poll, before the shard has announced that it sleeps, and reports nothing.
class WakingPoller final : public Poller {
 public:
  explicit WakingPoller(Shard& shard) : shard_(&shard) {}
  size_t poll() noexcept override {
    if (++polls == 1) shard_->wake();
    return 0;
  }
  [[nodiscard]] std::string_view name() const noexcept override { return "waking"; }
  int polls = 0;

 private:
  Shard* shard_;
};

TEST(ShardWait, a_wake_up_before_the_sleep_prevents_it) {
  Shard shard(system_clock(), {.spin_ns = 0, .yield_count = 0});
  WakingPoller poller(shard);
  shard.add(poller);
  const uint64_t deadline_ns = system_clock().now_ns() + 5 * kSecond_ns;
  EXPECT_TRUE(shard.run_until([&] { return poller.polls == 2; }, deadline_ns));
  EXPECT_EQ(shard.sleep_count(), 0u);
  shard.remove(poller);
}

// Time passes by polls alone, so many ns for each; it counts how often it is asked.
class PolledClock final : public Clock {
 public:
  [[nodiscard]] uint64_t now_ns() const noexcept override {
    ++looks;
    return now;
  }
  [[nodiscard]] uint64_t wall_ns() const noexcept override { return now; }
  [[nodiscard]] bool runs_by_itself() const noexcept override { return true; }
  mutable uint64_t looks = 0;
  uint64_t now = kSecond_ns;
};

// Works in its first polls, then is idle.
class SlowPoller final : public Poller {
 public:
  SlowPoller(PolledClock& clock, uint64_t poll_ns) : clock_(&clock), poll_ns_(poll_ns) {}
  size_t poll() noexcept override {
    clock_->now += poll_ns_;
    if (work > 0) {
      --work;
      worked_until_ns = clock_->now;
      return 1;
    }
    return 0;
  }
  [[nodiscard]] bool prepare_sleep() noexcept override {
    if (slept_at_ns == 0) slept_at_ns = clock_->now;
    return false;
  }
  [[nodiscard]] std::string_view name() const noexcept override { return "slow"; }
  unsigned work = 500;
  uint64_t worked_until_ns = 0;
  uint64_t slept_at_ns = 0;

 private:
  PolledClock* clock_;
  uint64_t poll_ns_;
};

struct Spun {
  uint64_t spin_ns = 0;     // From the last work to the first attempt to sleep.
  uint64_t work_looks = 0;  // At the clock, while there was work.
};

Spun spin_of(uint64_t poll_ns) {
  PolledClock clock;
  Shard shard(clock, {.spin_ns = 50'000, .yield_count = 0});
  SlowPoller poller(clock, poll_ns);
  shard.add(poller);
  Spun spun;
  EXPECT_TRUE(shard.run_until([&] { return poller.work == 0; }));
  spun.work_looks = clock.looks;
  EXPECT_TRUE(shard.run_until([&] { return poller.slept_at_ns != 0; }));
  spun.spin_ns = poller.slept_at_ns - poller.worked_until_ns;
  shard.remove(poller);
  return spun;
}

TEST(ShardWait, spins_as_long_as_it_is_told_however_long_a_poll_takes) {
  for (const uint64_t poll_ns : {30u, 300u, 1'000u, 5'000u, 15'000u}) {
    const Spun spun = spin_of(poll_ns);
    EXPECT_GE(spun.spin_ns, 50'000u) << poll_ns;
    // Two looks are at most 20 us apart, or a poll.
    EXPECT_LE(spun.spin_ns, 50'000u + 2 * 20'000u + 2 * poll_ns) << poll_ns;
  }
}

TEST(ShardWait, looks_at_the_clock_seldom_where_polls_are_short) {
  EXPECT_LE(spin_of(30).work_looks, 500u / 64 + 3);
  EXPECT_LE(spin_of(300).work_looks, 500u / 32 + 3);
}

// Has work that only its second look finds, as often as a number says.
class ReluctantPoller final : public Poller {
 public:
  size_t poll() noexcept override { return 0; }
  [[nodiscard]] bool prepare_sleep() noexcept override { return ++prepared > 100; }
  void woke() noexcept override { ++woken; }
  [[nodiscard]] std::string_view name() const noexcept override { return "reluctant"; }
  int prepared = 0;
  int woken = 0;
};

TEST(ShardWait, does_not_sleep_while_a_poller_objects) {
  Shard shard(system_clock(), {.spin_ns = 0, .yield_count = 0});
  ReluctantPoller poller;
  shard.add(poller);
  const uint64_t deadline_ns = system_clock().now_ns() + 5 * kSecond_ns;
  EXPECT_TRUE(shard.run_until([&] { return poller.woken == 100; }, deadline_ns));
  EXPECT_EQ(poller.prepared, 100);
  EXPECT_EQ(shard.sleep_count(), 0u);
  shard.remove(poller);
}

// Sees bytes on a socket.
class SocketPoller final : public Poller {
 public:
  explicit SocketPoller(int fd) : fd_(fd) {}
  size_t poll() noexcept override {
    std::array<char, 16> bytes;
    const ssize_t got = recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got == 0) hung_up = true;
    if (got > 0) received += static_cast<size_t>(got);
    return got > 0 ? 1 : 0;
  }
  [[nodiscard]] bool prepare_sleep() noexcept override {
    ++sleeps;
    return true;
  }
  [[nodiscard]] std::string_view name() const noexcept override { return "socket"; }
  std::atomic<size_t> sleeps = 0;
  size_t received = 0;
  bool hung_up = false;

 private:
  int fd_;
};

TEST(ShardWait, a_watched_descriptor_ends_a_sleep_each_time) {
  std::array<int, 2> sockets = {};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()), 0);
  Shard shard(system_clock(), {.spin_ns = 0});
  SocketPoller poller(sockets[0]);
  shard.add(poller);
  ASSERT_TRUE(shard.watch(sockets[0]));
  // Each byte is sent when the shard has last looked at the socket and is about to sleep, or sleeps already.
  std::thread sender([&] {
    for (size_t sent = 0; sent < 200; ++sent) {
      while (poller.sleeps <= sent) std::this_thread::yield();
      ASSERT_EQ(send(sockets[1], "x", 1, MSG_NOSIGNAL), 1);
    }
    close(sockets[1]);
  });
  for (size_t wanted = 1; wanted <= 200; ++wanted) {
    EXPECT_TRUE(shard.run_until([&] { return poller.received >= wanted; }));
  }
  EXPECT_TRUE(shard.run_until([&] { return poller.hung_up; }));
  sender.join();
  EXPECT_GE(shard.sleep_count(), 200u);
  shard.unwatch(sockets[0]);
  shard.remove(poller);
  close(sockets[0]);
}

TEST(ShardWait, says_so_when_a_descriptor_cannot_be_watched) {
  Shard shard(system_clock());
  EXPECT_FALSE(shard.watch(-1));
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_FALSE(shard.watch(null));
  close(null);
}

// One direction of the ping-pong: a number and an "asleep" word, as a ring in shared memory has them.
struct Line {
  std::atomic<uint64_t> number = 0;
  std::atomic<bool> asleep = false;
  int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

  // The waker's side: publish, then look whether the shard sleeps; both sequentially consistent.
  void say(uint64_t next) {
    number.store(next);
    if (asleep.exchange(false)) ring(bell);
  }
};

class LinePoller final : public Poller {
 public:
  explicit LinePoller(Line& line) : line_(&line) {}
  size_t poll() noexcept override {
    const uint64_t number = line_->number.load(std::memory_order_acquire);
    return std::exchange(seen, number) != number ? 1 : 0;
  }
  [[nodiscard]] bool prepare_sleep() noexcept override {
    ++prepared;
    // Widens the gap between the last poll and the announcement, where messages ring no bell.
    for (uint64_t turn = jitter_.below(400); turn > 0; --turn) __builtin_ia32_pause();
    line_->asleep.store(true);
    return line_->number.load() == seen;
  }
  void woke() noexcept override {
    ++woken;
    line_->asleep.store(false);
  }
  [[nodiscard]] std::string_view name() const noexcept override { return "line"; }
  uint64_t seen = 0;
  uint64_t prepared = 0;
  uint64_t woken = 0;

 private:
  Prng jitter_{17};
  Line* line_;
};

// Two shards answer each other `rounds` times; a lost wake-up would hang (and is reported by the deadline).
void play(uint64_t rounds, const ShardOptions& options) {
  Line ping;
  Line pong;
  const uint64_t deadline_ns = system_clock().now_ns() + 120 * kSecond_ns;
  const auto player = [&](Line& in, Line& out, bool begins) {
    Shard shard(system_clock(), options);
    LinePoller poller(in);
    shard.add(poller);
    EXPECT_TRUE(shard.watch(in.bell));
    for (uint64_t round = 1; round <= rounds; ++round) {
      if (begins) out.say(round);
      if (!shard.run_until([&] { return poller.seen == round; }, deadline_ns)) {
        ADD_FAILURE() << "lost a wake-up in round " << round;
        break;
      }
      if (!begins) out.say(round);
    }
    EXPECT_EQ(poller.prepared, poller.woken);
    shard.unwatch(in.bell);
    shard.remove(poller);
  };
  std::thread other([&] { player(ping, pong, false); });
  player(pong, ping, true);
  other.join();
  close(ping.bell);
  close(pong.bell);
}

TEST(ShardWait, loses_no_wake_up_when_every_wait_may_sleep) {
  play(20'000, {.spin_ns = 0, .yield_count = 0});
}

// Short spins and yields shift the moment of falling asleep against the other's message.
TEST(ShardWait, loses_no_wake_up_between_spinning_and_sleeping) {
  play(20'000, {.spin_ns = 3'000, .yield_count = 1});
}

// Both players share one CPU: with unbounded spins each answer would take a scheduler's slice of some
// milliseconds, 20 s and more in all.
TEST(ShardWait, two_shards_on_one_cpu_do_not_starve_each_other) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const uint64_t cpu_before_ns = thread_cpu_ns();
  play(5'000, {});
  const uint64_t cpu_ns = thread_cpu_ns() - cpu_before_ns;
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  EXPECT_LT(cpu_ns, 5 * kSecond_ns);
}

}  // namespace
}  // namespace refract::runtime
