// SPDX-License-Identifier: Apache-2.0
#include "refract/runtime/task.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "refract/base/result.h"
#include "refract/runtime/frame_pool.h"

namespace refract::runtime {
namespace {

// Suspends the task that awaits it until open() is called.
class Door {
 public:
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter) noexcept { waiter_ = waiter; }
  void await_resume() const noexcept {}
  void open() noexcept { std::exchange(waiter_, nullptr).resume(); }
  [[nodiscard]] bool awaited() const noexcept { return waiter_ != nullptr; }

 private:
  std::coroutine_handle<> waiter_;
};

// Counts how many of it exist.
struct Witness {
  explicit Witness(int* count_of_all) : count(count_of_all) { ++*count; }
  Witness(const Witness& other) : count(other.count) { ++*count; }
  Witness(Witness&& other) noexcept : count(other.count) { ++*count; }
  Witness& operator=(const Witness&) = delete;
  Witness& operator=(Witness&&) = delete;
  ~Witness() { --*count; }
  int* count;
};

Task<uint64_t> give(uint64_t value) {
  co_return value;
}

Task<uint64_t> add(uint64_t left, uint64_t right) {
  const uint64_t first = co_await give(left);
  const uint64_t second = co_await give(right);
  co_return first + second;
}

Task<> pass(Door& door) {
  co_await door;
}

Task<uint64_t> wait_then_give(Door& door, uint64_t value) {
  co_await door;
  co_return value;
}

Task<uint64_t> nest(Door& door, int depth) {
  if (depth == 0) {
    co_await door;
    co_return 0;
  }
  const uint64_t below = co_await nest(door, depth - 1);
  co_return below + 1;
}

TEST(Task, starts_only_when_it_is_driven) {
  bool ran = false;
  const auto body = [](bool* flag) -> Task<> {
    *flag = true;
    co_return;
  };
  Task<> task = body(&ran);
  EXPECT_FALSE(ran);
  task.start();
  EXPECT_TRUE(ran);
  EXPECT_TRUE(task.done());
}

TEST(Task, yields_the_value_of_nested_tasks) {
  Task<uint64_t> task = add(40, 2);
  task.start();
  ASSERT_TRUE(task.done());
  EXPECT_EQ(task.take(), 42u);
}

TEST(Task, resumes_all_awaiters_when_the_innermost_goes_on) {
  Door door;
  Task<uint64_t> task = nest(door, 100);
  task.start();
  EXPECT_FALSE(task.done());
  door.open();
  ASSERT_TRUE(task.done());
  EXPECT_EQ(task.take(), 100u);
}

Task<std::string> concatenate(Door& first, Door& second) {
  co_await pass(first);
  std::string text = "first";
  co_await pass(second);
  text += " second";
  co_return text;
}

TEST(Task, may_wait_again_and_again) {
  Door first;
  Door second;
  Task<std::string> task = concatenate(first, second);
  task.start();
  EXPECT_TRUE(first.awaited());
  EXPECT_FALSE(second.awaited());
  first.open();
  EXPECT_TRUE(second.awaited());
  second.open();
  EXPECT_EQ(task.take(), "first second");
}

Task<std::unique_ptr<int>> give_unique(std::unique_ptr<int> number) {
  co_return std::move(number);
}
Task<Result<int>> give_result(bool good) {
  if (!good) co_return fail(Code::kNotFound);
  co_return 7;
}

TEST(Task, carries_values_that_only_move_and_results) {
  Task<std::unique_ptr<int>> unique = give_unique(std::make_unique<int>(5));
  unique.start();
  EXPECT_EQ(*unique.take(), 5);
  Task<Result<int>> good = give_result(true);
  good.start();
  EXPECT_EQ(*good.take(), 7);
  Task<Result<int>> bad = give_result(false);
  bad.start();
  EXPECT_EQ(bad.take().code(), Code::kNotFound);
}

TEST(Task, lives_on_in_what_it_was_moved_to) {
  Door door;
  Task<uint64_t> first = wait_then_give(door, 9);
  Task<uint64_t> second = std::move(first);
  EXPECT_TRUE(second.valid());
  second.start();
  Task<uint64_t> third;
  EXPECT_FALSE(third.valid());
  third = std::move(second);
  door.open();
  ASSERT_TRUE(third.done());
  EXPECT_EQ(third.take(), 9u);
}

Task<> hold(Witness witness, Door& door) {
  const Witness local = witness;
  co_await pass(door);
}

Task<> hold_nested(Witness witness, Door& door) {
  const Witness local = witness;
  co_await hold(witness, door);
}

TEST(Task, destroyed_early_takes_its_locals_and_the_tasks_it_awaits_along) {
  int alive = 0;
  Door door;
  {
    const Task<> never_started = hold_nested(Witness(&alive), door);
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
  {
    Task<> suspended = hold_nested(Witness(&alive), door);
    suspended.start();
    EXPECT_TRUE(door.awaited());
    // Whether the argument of the inner call still exists is the compiler's choice.
    EXPECT_GE(alive, 4);
  }
  EXPECT_EQ(alive, 0);
  {
    Task<> replaced = hold_nested(Witness(&alive), door);
    replaced.start();
    replaced = pass(door);
    EXPECT_EQ(alive, 0);
  }
  Task<> completed = hold_nested(Witness(&alive), door);
  completed.start();
  door.open();
  EXPECT_TRUE(completed.done());
  completed = Task<>();
  EXPECT_EQ(alive, 0);
}

Task<uint64_t> sum_of_gifts(uint64_t count) {
  uint64_t sum = 0;
  for (uint64_t value = 0; value < count; ++value) {
    const uint64_t gift = co_await give(value);
    sum += gift;
  }
  co_return sum;
}

// Also the proof that awaiting tasks that are ready uses no stack: a million frames would not fit.
TEST(Task, a_million_awaits_take_neither_heap_nor_stack) {
  Task<uint64_t> warm_up = sum_of_gifts(1);
  warm_up.start();
  warm_up = Task<uint64_t>();
  const FramePool::Stats before = FramePool::stats();
  Task<uint64_t> task = sum_of_gifts(1'000'000);
  task.start();
  ASSERT_TRUE(task.done());
  EXPECT_EQ(task.take(), 1'000'000ull * 999'999 / 2);
  EXPECT_EQ(FramePool::stats().heap_count, before.heap_count);
}

Task<> pass_often(Door& door, int times) {
  for (int time = 0; time < times; ++time) co_await pass(door);
}

TEST(Task, a_hundred_thousand_suspensions_take_neither_heap_nor_stack) {
  Door door;
  Task<> task = pass_often(door, 100'000);
  task.start();
  door.open();
  const FramePool::Stats before = FramePool::stats();
  for (int time = 1; time < 100'000; ++time) door.open();
  EXPECT_TRUE(task.done());
  EXPECT_EQ(FramePool::stats().heap_count, before.heap_count);
}

TEST(FramePool, serves_a_size_again_after_its_first_use) {
  for (const size_t bytes : {size_t{1}, size_t{64}, size_t{65}, size_t{1'000}, FramePool::kPooledBytesMax}) {
    void* const first = FramePool::allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 16, 0u);
    FramePool::release(first, bytes);
    const FramePool::Stats before = FramePool::stats();
    void* const second = FramePool::allocate(bytes);
    EXPECT_EQ(second, first);
    EXPECT_EQ(FramePool::stats().hit_count, before.hit_count + 1);
    EXPECT_EQ(FramePool::stats().heap_count, before.heap_count);
    FramePool::release(second, bytes);
  }
}

TEST(FramePool, takes_larger_frames_from_the_heap_each_time) {
  const size_t bytes = FramePool::kPooledBytesMax + 1;
  const FramePool::Stats before = FramePool::stats();
  for (int time = 0; time < 3; ++time) FramePool::release(FramePool::allocate(bytes), bytes);
  EXPECT_EQ(FramePool::stats().heap_count, before.heap_count + 3);
}

TEST(FramePool, takes_back_frames_of_other_threads) {
  std::array<void*, 8> frames = {};
  std::thread([&frames] {
    for (void*& frame : frames) frame = FramePool::allocate(3'333);
  }).join();
  for (void* const frame : frames) FramePool::release(frame, 3'333);
  const FramePool::Stats before = FramePool::stats();
  std::vector<void*> again;
  for (size_t time = 0; time < frames.size(); ++time) again.push_back(FramePool::allocate(3'333));
  EXPECT_EQ(FramePool::stats().hit_count, before.hit_count + frames.size());
  for (void* const frame : again) FramePool::release(frame, 3'333);
}

}  // namespace
}  // namespace refract::runtime
