// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/admin/crew.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/units.h"
#include "refract/runtime/poller.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/shard_thread.h"

namespace refract::doors::redis {
namespace {

constexpr uint64_t kPatience_ns = 60 * kSecond_ns;

// A thread's part of the crew, which has no connections.
class Member final : public runtime::Poller, private Lines {
 public:
  Member(Crew& crew, size_t place, runtime::Shard& shard) : crew_(crew), place_(place), shard_(shard) {
    shard_.add(*this);
    crew_.sit(place_, shard_, *this);
  }
  ~Member() override {
    crew_.leave(place_);
    shard_.remove(*this);
  }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  size_t poll() noexcept override { return crew_.poll(place_); }
  [[nodiscard]] bool prepare_sleep() noexcept override { return !crew_.has_work(place_); }
  [[nodiscard]] std::string_view name() const noexcept override { return "member"; }

 private:
  void visit(const Visit& /*visit*/) override {}
  void visit_ended(const Visit& /*visit*/) override {}

  Crew& crew_;
  size_t place_;
  runtime::Shard& shard_;
};

// Is over in each thread when it has run there so often; counts its runs, which no two threads share.
class Rounds final : public Errand {
 public:
  explicit Rounds(std::vector<uint32_t> wanted) : wanted_(std::move(wanted)), runs_(wanted_.size()) {}
  bool run(size_t place, Lines& /*lines*/) override { return ++runs_[place] >= wanted_[place]; }
  [[nodiscard]] const std::vector<uint32_t>& runs() const noexcept { return runs_; }

 private:
  std::vector<uint32_t> wanted_;
  std::vector<uint32_t> runs_;
};

runtime::Task<> ask(Crew& crew, size_t place, runtime::Shard& shard, std::atomic<uint64_t>& wrong) {
  for (int i = 0; i < 200; ++i) {
    Rounds rounds(std::vector<uint32_t>(crew.threads(), 1));
    const bool is_done = co_await crew.run(place, shard, rounds);
    for (const uint32_t runs : rounds.runs()) wrong += is_done && runs == 1 ? 0 : 1;
  }
}

// Claim: an errand runs once in each thread, and its asker continues when it is over in all; also where every
// thread asks at a time.
TEST(Crew, each_thread_runs_each_errand_once) {
  constexpr size_t kThreads = 4;
  Crew crew(kThreads);
  std::atomic<size_t> ended = 0;
  std::atomic<uint64_t> wrong = 0;
  {
    std::vector<std::unique_ptr<runtime::ShardThread>> threads;
    threads.reserve(kThreads);
    for (size_t place = 0; place < kThreads; ++place) {
      auto thread = runtime::ShardThread::start({.name = "crew", .on_end = [](int) {}}, [&, place] {
        runtime::Shard shard(system_clock());
        const Member member(crew, place, shard);
        for (int i = 0; i < 4; ++i) shard.spawn(ask(crew, place, shard, wrong));
        const uint64_t end_ns = shard.refresh_now() + kPatience_ns;
        EXPECT_TRUE(shard.run_until([&] { return shard.gate().count() == 0; }, end_ns));
        ++ended;
        // The others may still ask: it runs theirs.
        while (ended.load() < kThreads && shard.refresh_now() < end_ns) {
          (void)shard.run_until([&] { return ended.load() == kThreads; },
                                shard.refresh_now() + kMillisecond_ns);
        }
        return 0;
      });
      ASSERT_TRUE(thread.has_value());
      threads.push_back(std::move(*thread));
    }
  }
  EXPECT_EQ(ended.load(), kThreads);
  EXPECT_EQ(wrong.load(), 0U);
}

// Claim: one that is not over is run again in later turns; a thread that has left holds no one up.
TEST(Crew, an_errand_runs_until_it_is_over_and_not_where_none_is_there) {
  Crew crew(2);
  runtime::Shard shard(system_clock());
  runtime::Shard other(system_clock());
  {
    const Member gone(crew, 1, other);
  }
  const Member member(crew, 0, shard);
  Rounds rounds({5, 5});
  EXPECT_TRUE(runtime::block_on(shard, crew.run(0, shard, rounds)));
  EXPECT_EQ(rounds.runs(), (std::vector<uint32_t>{5, 0}));
}

// Claim: a thread that leaves does not hold up what was asked of it, begun or not.
TEST(Crew, who_leaves_ends_what_was_asked_of_it) {
  Crew crew(2);
  runtime::Shard shard(system_clock());
  runtime::Shard other(system_clock());
  const Member member(crew, 0, shard);
  Rounds begun({1, UINT32_MAX});
  Rounds waiting({1, 1});
  auto first = crew.run(0, shard, begun);
  auto second = crew.run(0, shard, waiting);
  {
    const Member leaving(crew, 1, other);
    first.start();
    (void)shard.poll_once();
    (void)other.poll_once();
    second.start();
    (void)shard.poll_once();
    EXPECT_EQ(begun.runs(), (std::vector<uint32_t>{1, 1}));
    EXPECT_FALSE(first.done());
    EXPECT_FALSE(second.done());
  }
  const uint64_t end_ns = shard.refresh_now() + kPatience_ns;
  EXPECT_TRUE(shard.run_until([&] { return first.done() && second.done(); }, end_ns));
  EXPECT_TRUE(first.take());
  EXPECT_TRUE(second.take());
  EXPECT_EQ(waiting.runs(), (std::vector<uint32_t>{1, 0}));
}

}  // namespace
}  // namespace refract::doors::redis
