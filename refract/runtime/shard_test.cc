// SPDX-License-Identifier: Apache-2.0
#include "refract/runtime/shard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "refract/base/prng.h"

namespace refract::runtime {
namespace {

// A poller made of functions.
class FunctionPoller final : public Poller {
 public:
  explicit FunctionPoller(std::function<size_t()> body) : body_(std::move(body)) {}
  size_t poll() noexcept override { return body_(); }
  [[nodiscard]] std::string_view name() const noexcept override { return "function"; }

 private:
  std::function<size_t()> body_;
};

// Time that passes only when nothing else can happen: the smallest simulated world.
class JumpToNextEvent final : public Idler {
 public:
  explicit JumpToNextEvent(ManualClock& clock) : clock_(&clock) {}
  [[nodiscard]] bool idle(uint64_t until_ns) noexcept override {
    if (until_ns == kForever_ns) return false;
    if (until_ns > clock_->now_ns()) clock_->set_now_ns(until_ns);
    return true;
  }

 private:
  ManualClock* clock_;
};

size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

// --- Virtual time ---

Task<> note_after(Shard& shard, uint64_t ns, int id, std::vector<int>& order) {
  co_await shard.sleep_for(ns);
  order.push_back(id);
}

TEST(ShardInVirtualTime, fires_timers_in_order_and_equal_ones_as_they_were_set) {
  ManualClock clock;
  JumpToNextEvent idler(clock);
  Shard shard(clock, {.idler = &idler});
  std::vector<int> order;
  const std::array<uint64_t, 6> delays_s = {3'000, 1'000, 2'000, 1'000, 0, 2'000};
  for (size_t id = 0; id < delays_s.size(); ++id) {
    shard.spawn(note_after(shard, delays_s[id] * kSecond_ns, static_cast<int>(id), order));
  }
  EXPECT_EQ(shard.gate().count(), 6u);
  EXPECT_TRUE(shard.run_until([&] { return shard.gate().count() == 0; }));
  EXPECT_EQ(order, (std::vector<int>{4, 1, 3, 2, 5, 0}));
  EXPECT_EQ(clock.now_ns(), 3'000 * kSecond_ns);
  EXPECT_EQ(shard.sleep_count(), 0u);
}

TEST(ShardInVirtualTime, opens_no_descriptor) {
  const size_t before = open_descriptors();
  ManualClock clock;
  JumpToNextEvent idler(clock);
  Shard shard(clock, {.idler = &idler});
  std::vector<int> order;
  block_on(shard, note_after(shard, kSecond_ns, 1, order));
  EXPECT_EQ(open_descriptors(), before);
}

TEST(ShardInVirtualTime, steps_by_hand) {
  ManualClock clock;
  Shard shard(clock);
  std::vector<int> order;
  shard.spawn(note_after(shard, 100, 1, order));
  EXPECT_EQ(shard.next_timer_ns(), 100u);
  EXPECT_EQ(shard.poll_once(), 0u);
  clock.advance_ns(99);
  EXPECT_EQ(shard.poll_once(), 0u);
  clock.advance_ns(1);
  EXPECT_EQ(shard.poll_once(), 1u);
  EXPECT_EQ(order, std::vector<int>{1});
  EXPECT_EQ(shard.next_timer_ns(), kForever_ns);
}

TEST(ShardInVirtualTime, cancels_the_timers_of_dropped_tasks) {
  ManualClock clock;
  Shard shard(clock);
  std::vector<int> order;
  Task<> dropped = note_after(shard, 10, 1, order);
  dropped.start();
  Task<> kept = note_after(shard, 20, 2, order);
  kept.start();
  dropped = Task<>();
  EXPECT_EQ(shard.next_timer_ns(), 20u);
  clock.advance_ns(100);
  shard.poll_once();
  EXPECT_EQ(order, std::vector<int>{2});
}

Task<> give_way_often(Shard& shard, int& turns, int times) {
  for (int time = 0; time < times; ++time) {
    ++turns;
    co_await shard.sleep_for(0);
  }
}

TEST(ShardInVirtualTime, lets_everything_have_a_turn_when_a_task_sleeps_for_nothing) {
  ManualClock clock;
  Shard shard(clock);
  int left = 0;
  int right = 0;
  shard.spawn(give_way_often(shard, left, 100));
  shard.spawn(give_way_often(shard, right, 100));
  for (int turn = 1; turn <= 100; ++turn) {
    EXPECT_EQ(left, turn);
    EXPECT_EQ(right, turn);
    shard.poll_once();
  }
  EXPECT_EQ(shard.gate().count(), 0u);
}

Task<Code> wait_for_op(Shard& shard, uint64_t timeout_ns, Token& token) {
  Pending op = shard.ops().begin(shard.now_ns() + timeout_ns);
  token = op.token();
  const OpResult result = co_await op;
  co_return result.code;
}

TEST(ShardInVirtualTime, ends_overdue_operations) {
  ManualClock clock;
  clock.set_now_ns(kSecond_ns);
  JumpToNextEvent idler(clock);
  Shard shard(clock, {.idler = &idler});
  Token token = 0;
  EXPECT_EQ(block_on(shard, wait_for_op(shard, 5'000, token)), Code::kDeadlineExceeded);
  EXPECT_EQ(clock.now_ns(), kSecond_ns + 5'000);
  EXPECT_FALSE(shard.ops().complete(token, {}));
}

TEST(ShardInVirtualTime, stops_at_its_deadline_or_when_nothing_can_happen_any_more) {
  ManualClock clock;
  JumpToNextEvent idler(clock);
  Shard shard(clock, {.idler = &idler});
  EXPECT_FALSE(shard.run_until([] { return false; }, 500));
  EXPECT_EQ(clock.now_ns(), 500u);
  EXPECT_FALSE(shard.run_until([] { return false; }));
  EXPECT_EQ(clock.now_ns(), 500u);
  EXPECT_TRUE(shard.run_until([] { return true; }, 0));
}

TEST(ShardInVirtualTime, passes_its_deadline_even_when_it_is_always_busy) {
  ManualClock clock;
  Shard shard(clock);
  FunctionPoller busy([&clock] {
    clock.advance_ns(10);
    return size_t{1};
  });
  shard.add(busy);
  EXPECT_FALSE(shard.run_until([] { return false; }, 1'000));
  EXPECT_EQ(clock.now_ns(), 1'000u);
  shard.remove(busy);
}

// --- Pollers and operations ---

TEST(Shard, completes_operations_from_inside_a_poll) {
  Shard shard(system_clock());
  Token token = 0;
  FunctionPoller poller([&] {
    if (token == 0) return size_t{0};
    return size_t{shard.ops().complete(std::exchange(token, 0), {.code = Code::kExists})};
  });
  shard.add(poller);
  EXPECT_EQ(block_on(shard, wait_for_op(shard, kForever_ns / 2, token)), Code::kExists);
  shard.remove(poller);
}

TEST(Shard, lets_pollers_come_and_go_during_a_poll) {
  Shard shard(system_clock());
  int polled_late = 0;
  FunctionPoller late([&polled_late] {
    ++polled_late;
    return size_t{0};
  });
  int polled_doomed = 0;
  FunctionPoller doomed([&polled_doomed] {
    ++polled_doomed;
    return size_t{0};
  });
  std::unique_ptr<FunctionPoller> self;
  self = std::make_unique<FunctionPoller>([&] {
    shard.remove(doomed);
    shard.add(late);
    shard.remove(*self);
    return size_t{1};
  });
  shard.add(*self);
  shard.add(doomed);
  EXPECT_EQ(shard.poll_once(), 1u);
  self.reset();
  shard.poll_once();
  EXPECT_EQ(polled_doomed, 0);
  EXPECT_EQ(polled_late, 2);
  shard.remove(late);
}

TEST(Shard, drops_unended_tasks_with_itself_and_starts_none_behind_a_closed_gate) {
  auto alive = std::make_unique<int>(0);
  struct Guard {
    explicit Guard(int* count) : count_of_all(count) { ++*count_of_all; }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() { --*count_of_all; }
    int* count_of_all;
  };
  const auto body = [](Shard& shard, int* count) -> Task<> {
    const Guard guard(count);
    Pending op = shard.ops().begin(kForever_ns);
    co_await shard.sleep_for(kForever_ns);
    static_cast<void>(co_await op);
  };
  {
    Shard shard(system_clock());
    for (int task = 0; task < 3; ++task) shard.spawn(body(shard, alive.get()));
    EXPECT_EQ(*alive, 3);
    shard.gate().close();
    shard.spawn(body(shard, alive.get()));
    EXPECT_EQ(*alive, 3);
    EXPECT_EQ(shard.gate().count(), 3u);
  }
  EXPECT_EQ(*alive, 0);
}

TEST(ShardDeathTest, is_not_polled_from_inside_a_poll) {
  Shard shard(system_clock());
  FunctionPoller poller([&shard] { return shard.poll_once(); });
  shard.add(poller);
  EXPECT_DEATH(shard.poll_once(), "check failed: !polling_");
  shard.remove(poller);
}

// No allocation once frames and lists exist: not for tasks, not for operations, not for timers.
Task<> one_of_each(Shard& shard, Token& token) {
  Pending op = shard.ops().begin(kForever_ns);
  token = op.token();
  static_cast<void>(co_await op);
  co_await shard.sleep_for(0);
}

TEST(Shard, takes_frames_from_the_pool_after_warm_up) {
  Shard shard(system_clock());
  Token token = 0;
  FunctionPoller poller(
      [&] { return size_t{token != 0 && shard.ops().complete(std::exchange(token, 0), {})}; });
  shard.add(poller);
  for (int round = 0; round < 3; ++round) {
    shard.spawn(one_of_each(shard, token));
    EXPECT_TRUE(shard.run_until([&] { return shard.gate().count() == 0; }));
  }
  const FramePool::Stats before = FramePool::stats();
  for (int round = 0; round < 1'000; ++round) {
    shard.spawn(one_of_each(shard, token));
    EXPECT_TRUE(shard.run_until([&] { return shard.gate().count() == 0; }));
  }
  EXPECT_EQ(FramePool::stats().heap_count, before.heap_count);
  EXPECT_GT(FramePool::stats().hit_count, before.hit_count);
  shard.remove(poller);
}

}  // namespace
}  // namespace refract::runtime
