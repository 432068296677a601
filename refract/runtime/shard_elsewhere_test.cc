// SPDX-License-Identifier: Apache-2.0
// A shard in a loop that is not its own: one that waits by poll(2) on its descriptor, and calls run_ready().
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "refract/base/units.h"
#include "refract/runtime/shard.h"

namespace refract::runtime {
namespace {

constexpr int kPatience_ms = 60'000;

bool is_readable(int fd, int timeout_ms) {
  pollfd wanted = {.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&wanted, 1, timeout_ms) == 1;
}

// The other loop. False: nothing made the descriptor readable for a minute.
template <typename Done>
bool loop_until(Shard& shard, Done&& done) {
  for (;;) {
    while (shard.run_ready()) {
    }
    if (done()) return true;
    if (!is_readable(shard.descriptor(), kPatience_ms)) return false;
  }
}

// What another thread brings, one by one; it rings only where this says that its shard sleeps.
class Inbox final : public Poller {
 public:
  explicit Inbox(Shard& shard) : shard_(shard), bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    EXPECT_TRUE(shard_.watch(bell_));
    shard_.add(*this);
  }
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;
  ~Inbox() override {
    shard_.remove(*this);
    shard_.unwatch(bell_);
    close(bell_);
  }

  size_t poll() noexcept override {
    const uint64_t now = brought_.load();
    return static_cast<size_t>(now - std::exchange(seen_, now));
  }
  [[nodiscard]] bool prepare_sleep() noexcept override {
    ++announced;
    asleep_.store(true);
    return !looks_again || brought_.load() == seen_;
  }
  void woke() noexcept override {
    ++withdrawn;
    asleep_.store(false);
  }
  [[nodiscard]] std::string_view name() const noexcept override { return "inbox"; }

  // By the other thread.
  void bring() noexcept {
    brought_.fetch_add(1);
    const uint64_t one = 1;
    if (!asleep_.load()) return;
    EXPECT_EQ(write(bell_, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  }
  [[nodiscard]] uint64_t seen() const noexcept { return seen_; }

  bool looks_again = true;
  int announced = 0;
  int withdrawn = 0;

 private:
  Shard& shard_;
  int bell_;
  std::atomic<uint64_t> brought_ = 0;
  uint64_t seen_ = 0;
  std::atomic<bool> asleep_ = false;
};

Task<> sleep_then_count(Shard& shard, uint64_t ns, int& count) {
  co_await shard.sleep_for(ns);
  ++count;
}

// The one thread waits for each thing that the other brings, which waits for it to be seen: every one is a
// race between a sleep and a wake-up. Some 0.5 s.
TEST(ShardElsewhere, no_wake_up_is_lost_between_the_last_poll_and_the_wait) {
  Shard shard(system_clock());
  ASSERT_GE(shard.descriptor(), 0);
  Inbox inbox(shard);
  constexpr uint64_t kRounds = 20'000;
  std::atomic<uint64_t> done = 0;
  std::thread other([&] {
    for (uint64_t round = 0; round < kRounds; ++round) {
      while (done.load() < round) std::this_thread::yield();
      inbox.bring();
    }
  });
  for (uint64_t round = 1; round <= kRounds; ++round) {
    const bool is_seen = loop_until(shard, [&] { return inbox.seen() >= round; });
    EXPECT_TRUE(is_seen) << round;
    done = is_seen ? round : kRounds;
    if (!is_seen) break;
  }
  other.join();
}

// What is tested above can be seen to fail: something comes after the last poll, before the announcement.
TEST(ShardElsewhere, what_came_before_the_announcement_is_found_by_the_second_look) {
  class Late final : public Poller {
   public:
    explicit Late(Inbox& inbox) : inbox_(inbox) {}
    size_t poll() noexcept override {
      if (std::exchange(is_due, false)) inbox_.bring();
      return 0;
    }
    [[nodiscard]] std::string_view name() const noexcept override { return "late"; }
    bool is_due = true;

   private:
    Inbox& inbox_;
  };
  for (const bool looks_again : {true, false}) {
    Shard shard(system_clock());
    ASSERT_GE(shard.descriptor(), 0);
    Inbox inbox(shard);
    inbox.looks_again = looks_again;
    Late late(inbox);
    shard.add(late);
    EXPECT_EQ(shard.run_ready(), looks_again) << "it is to be called again, since there is work";
    EXPECT_EQ(inbox.seen(), 0U);
    EXPECT_FALSE(is_readable(shard.descriptor(), 10)) << "nothing tells of it later";
    shard.remove(late);
  }
}

TEST(ShardElsewhere, timers_make_the_descriptor_readable_and_no_work_does_not) {
  Shard shard(system_clock());
  ASSERT_GE(shard.descriptor(), 0);
  int count = 0;
  for (const uint64_t ms : {30U, 10U, 20U}) shard.spawn(sleep_then_count(shard, ms * kMillisecond_ns, count));
  const uint64_t begun_ns = system_clock().now_ns();
  int waits = 0;
  EXPECT_TRUE(loop_until(shard, [&] {
    ++waits;
    return count == 3;
  }));
  EXPECT_GE(system_clock().now_ns() - begun_ns, 30 * kMillisecond_ns);
  EXPECT_LE(waits, 8) << "it is called for each timer, and never in between";
  EXPECT_FALSE(shard.run_ready());
  EXPECT_FALSE(is_readable(shard.descriptor(), 50));
  // One that does not wait any longer rings for nothing, once.
  {
    Task<> endless = sleep_then_count(shard, 20 * kMillisecond_ns, count);
    endless.start();
    EXPECT_FALSE(shard.run_ready());
  }
  EXPECT_TRUE(is_readable(shard.descriptor(), kPatience_ms));
  EXPECT_FALSE(shard.run_ready());
  EXPECT_FALSE(is_readable(shard.descriptor(), 50));
  EXPECT_EQ(count, 3);
}

TEST(ShardElsewhere, a_timer_that_is_earlier_than_the_alarm_is_not_late) {
  Shard shard(system_clock());
  ASSERT_GE(shard.descriptor(), 0);
  int count = 0;
  shard.spawn(sleep_then_count(shard, 60 * kSecond_ns, count));
  EXPECT_FALSE(shard.run_ready());
  shard.spawn(sleep_then_count(shard, 10 * kMillisecond_ns, count));
  EXPECT_TRUE(loop_until(shard, [&] { return count == 1; }));
  shard.drop_tasks();
}

TEST(ShardElsewhere, wake_makes_the_descriptor_readable_from_any_thread) {
  Shard shard(system_clock());
  ASSERT_GE(shard.descriptor(), 0);
  EXPECT_FALSE(shard.run_ready());
  EXPECT_FALSE(is_readable(shard.descriptor(), 0));
  std::thread([&] { shard.wake(); }).join();
  EXPECT_TRUE(is_readable(shard.descriptor(), kPatience_ms));
  while (shard.run_ready()) {
  }
  EXPECT_FALSE(is_readable(shard.descriptor(), 20));
}

// Each announcement is taken back once, whatever comes between: polls of its own loop, pollers that come and
// go.
TEST(ShardElsewhere, each_announcement_is_taken_back_once) {
  Shard shard(system_clock());
  ASSERT_GE(shard.descriptor(), 0);
  Inbox inbox(shard);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(shard.run_ready());
    EXPECT_EQ(inbox.announced, inbox.withdrawn + 1);
  }
  int count = 0;
  block_on(shard, sleep_then_count(shard, kMillisecond_ns, count));
  EXPECT_EQ(inbox.announced, inbox.withdrawn);
  EXPECT_FALSE(shard.run_ready());
  {
    const Inbox other(shard);
    EXPECT_EQ(inbox.announced, inbox.withdrawn);
    EXPECT_FALSE(shard.run_ready());
    EXPECT_EQ(other.announced, other.withdrawn + 1);
  }
  EXPECT_EQ(inbox.announced, inbox.withdrawn);
  EXPECT_FALSE(shard.run_ready());
}

// A task that has work again and again.
Task<> work_for_ever(Shard& shard, uint64_t& turns) {
  for (;;) {
    co_await shard.sleep_for(0);
    ++turns;
  }
}

TEST(ShardElsewhere, work_without_an_end_leaves_the_other_loop_its_turns) {
  Shard shard(system_clock());
  ASSERT_GE(shard.descriptor(), 0);
  uint64_t turns = 0;
  shard.spawn(work_for_ever(shard, turns));
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(shard.run_ready());
  EXPECT_GE(turns, 100U);
  EXPECT_LT(turns, 10'000U);
  shard.drop_tasks();
}

}  // namespace
}  // namespace refract::runtime
