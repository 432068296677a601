// SPDX-License-Identifier: Apache-2.0
#include "refract/runtime/op_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/prng.h"
#include "refract/runtime/task.h"

namespace refract::runtime {
namespace {

// What a coroutine that ran one operation leaves behind.
struct Outcome {
  Token token = 0;
  std::optional<Code> code;
  uint64_t value = 0;
  std::string bytes;
};

Task<> run_one(OpTable& table, uint64_t deadline_ns, Outcome& outcome) {
  Pending op = table.begin(deadline_ns);
  outcome.token = op.token();
  const OpResult result = co_await op;
  outcome.code = result.code;
  outcome.value = result.value;
  outcome.bytes.assign(reinterpret_cast<const char*>(result.bytes.data()), result.bytes.size());
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(OpTable, gives_the_result_to_the_coroutine_before_complete_returns) {
  OpTable table(4);
  Outcome outcome;
  Task<> task = run_one(table, kForever_ns, outcome);
  task.start();
  ASSERT_NE(outcome.token, 0u);
  EXPECT_TRUE(table.in_flight(outcome.token));
  EXPECT_EQ(table.count(), 1u);
  {
    const std::string reply = "reply";
    EXPECT_TRUE(table.complete(outcome.token, {.code = Code::kExists, .value = 9, .bytes = as_bytes(reply)}));
  }
  EXPECT_TRUE(task.done());
  EXPECT_EQ(outcome.code, Code::kExists);
  EXPECT_EQ(outcome.value, 9u);
  EXPECT_EQ(outcome.bytes, "reply");
  EXPECT_EQ(table.count(), 0u);
}

TEST(OpTable, counts_and_ignores_stale_completions) {
  OpTable table(1);
  Outcome first;
  Task<> one = run_one(table, kForever_ns, first);
  one.start();
  EXPECT_TRUE(table.complete(first.token, {}));
  Outcome second;
  Task<> two = run_one(table, kForever_ns, second);
  two.start();
  EXPECT_NE(first.token, second.token);
  EXPECT_EQ(first.token & UINT32_MAX, second.token & UINT32_MAX);
  EXPECT_FALSE(table.complete(first.token, {}));
  EXPECT_FALSE(table.complete(0, {}));
  EXPECT_FALSE(table.complete(UINT64_MAX, {}));
  EXPECT_FALSE(table.complete(second.token + 1, {}));
  EXPECT_EQ(table.stale_count(), 4u);
  EXPECT_FALSE(second.code.has_value());
  EXPECT_TRUE(table.complete(second.token, {}));
  EXPECT_FALSE(table.complete(second.token, {}));
}

TEST(OpTable, full_says_overloaded_at_once) {
  OpTable table(2);
  std::array<Outcome, 3> outcomes;
  std::vector<Task<>> tasks;
  for (Outcome& outcome : outcomes) tasks.push_back(run_one(table, kForever_ns, outcome));
  for (Task<>& task : tasks) task.start();
  EXPECT_EQ(outcomes[2].token, 0u);
  EXPECT_EQ(outcomes[2].code, Code::kOverloaded);
  EXPECT_FALSE(outcomes[0].code || outcomes[1].code);
  EXPECT_TRUE(table.complete(outcomes[0].token, {}));
  Outcome next;
  Task<> task = run_one(table, kForever_ns, next);
  task.start();
  EXPECT_NE(next.token, 0u);
  EXPECT_EQ(table.fail_all(Code::kUnavailable), 2u);
}

TEST(OpTable, drops_the_operation_with_its_coroutine) {
  OpTable table(1);
  Outcome outcome;
  {
    Task<> task = run_one(table, 5, outcome);
    task.start();
    EXPECT_EQ(table.count(), 1u);
  }
  EXPECT_EQ(table.count(), 0u);
  EXPECT_EQ(table.next_deadline_ns(), kForever_ns);
  EXPECT_FALSE(table.complete(outcome.token, {}));
  EXPECT_EQ(table.stale_count(), 1u);
  EXPECT_FALSE(outcome.code.has_value());
}

TEST(OpTable, moves_with_its_handle) {
  OpTable table(2);
  Pending first = table.begin(kForever_ns);
  const Token token = first.token();
  Pending second = std::move(first);
  EXPECT_TRUE(table.in_flight(token));
  Pending third = table.begin(kForever_ns);
  third = std::move(second);
  EXPECT_EQ(third.token(), token);
  EXPECT_TRUE(table.in_flight(token));
  EXPECT_EQ(table.count(), 1u);
}

TEST(OpTable, expires_what_is_overdue_and_nothing_else) {
  OpTable table(8);
  std::array<Outcome, 4> outcomes;
  const std::array<uint64_t, 4> deadlines = {300, 100, kForever_ns, 200};
  std::vector<Task<>> tasks;
  for (size_t at = 0; at < 4; ++at) {
    tasks.push_back(run_one(table, deadlines[at], outcomes[at]));
    tasks.back().start();
  }
  EXPECT_EQ(table.next_deadline_ns(), 100u);
  EXPECT_EQ(table.expire(99), 0u);
  EXPECT_EQ(table.expire(200), 2u);
  EXPECT_EQ(outcomes[1].code, Code::kDeadlineExceeded);
  EXPECT_EQ(outcomes[3].code, Code::kDeadlineExceeded);
  EXPECT_EQ(table.next_deadline_ns(), 300u);
  EXPECT_EQ(table.expire(1'000), 1u);
  EXPECT_EQ(outcomes[0].code, Code::kDeadlineExceeded);
  EXPECT_FALSE(table.complete(outcomes[0].token, {}));
  EXPECT_EQ(table.next_deadline_ns(), kForever_ns);
  EXPECT_FALSE(outcomes[2].code.has_value());
  EXPECT_TRUE(table.complete(outcomes[2].token, {}));
}

Task<> keep_retrying(OpTable& table, int& attempts, Code& last) {
  for (;;) {
    Pending op = table.begin(/*deadline_ns=*/10);
    ++attempts;
    const OpResult result = co_await op;
    last = result.code;
    if (result.code == Code::kOk) co_return;
  }
}

TEST(OpTable, fails_all_but_not_what_the_failed_begin_again) {
  OpTable table(16);
  std::array<int, 8> attempts = {};
  std::array<Code, 8> last = {};
  std::vector<Task<>> tasks;
  for (size_t at = 0; at < 8; ++at) {
    tasks.push_back(keep_retrying(table, attempts[at], last[at]));
    tasks.back().start();
  }
  EXPECT_EQ(table.fail_all(Code::kUnavailable), 8u);
  for (size_t at = 0; at < 8; ++at) {
    EXPECT_EQ(attempts[at], 2);
    EXPECT_EQ(last[at], Code::kUnavailable);
  }
  EXPECT_EQ(table.count(), 8u);
  // Those that begin again are overdue at once; a turn of expire must end nevertheless.
  EXPECT_GE(table.expire(10), 8u);
  EXPECT_EQ(table.next_deadline_ns(), 10u);
}

Task<> begin_two_after_failure(OpTable& table, std::optional<Code>& code_of_last) {
  {
    Pending first = table.begin(kForever_ns);
    static_cast<void>(co_await first);
  }
  const Pending second = table.begin(kForever_ns);
  Pending third = table.begin(kForever_ns);
  const OpResult result = co_await third;
  code_of_last = result.code;
}

TEST(OpTable, fails_nothing_that_began_in_a_slot_not_yet_visited) {
  OpTable table(8);
  std::optional<Code> code;
  Task<> task = begin_two_after_failure(table, code);
  task.start();
  EXPECT_EQ(table.fail_all(Code::kUnavailable), 1u);
  EXPECT_FALSE(code.has_value());
  EXPECT_EQ(table.count(), 2u);
  EXPECT_EQ(table.fail_all(Code::kCorrupt), 2u);
  EXPECT_EQ(code, Code::kCorrupt);
}

Task<> await_late(OpTable& table, Token& token, std::coroutine_handle<>& waiter, std::string& seen) {
  struct Pause {
    std::coroutine_handle<>* where;
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> handle) const noexcept { *where = handle; }
    void await_resume() const noexcept {}
  };
  Pending op = table.begin(kForever_ns);
  token = op.token();
  co_await Pause{&waiter};
  const OpResult result = co_await op;
  seen.assign(reinterpret_cast<const char*>(result.bytes.data()), result.bytes.size());
}

TEST(OpTable, keeps_the_bytes_of_a_completion_that_comes_before_the_await) {
  OpTable table(2);
  Token token = 0;
  std::coroutine_handle<> waiter;
  std::string seen;
  Task<> task = await_late(table, token, waiter, seen);
  task.start();
  std::string reply = "early";
  EXPECT_TRUE(table.complete(token, {.bytes = as_bytes(reply)}));
  EXPECT_FALSE(table.complete(token, {.bytes = as_bytes(reply)}));
  reply = "xxxxx";
  waiter.resume();
  EXPECT_TRUE(task.done());
  EXPECT_EQ(seen, "early");
  EXPECT_EQ(table.count(), 0u);
}

Task<> ping(OpTable& table, Token& other, Token& own, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    Pending op = table.begin(kForever_ns);
    own = op.token();
    // Completes the other's operation, whose coroutine runs inside this call and begins its next one.
    if (other != 0) table.complete(std::exchange(other, 0), {});
    static_cast<void>(co_await op);
  }
  if (other != 0) table.complete(std::exchange(other, 0), {});
}

TEST(OpTable, completes_from_inside_a_completion) {
  OpTable table(2);
  Token left = 0;
  Token right = 0;
  Task<> one = ping(table, right, left, 100);
  Task<> two = ping(table, left, right, 100);
  one.start();
  two.start();
  while (!one.done() || !two.done()) {
    if (left != 0 && table.in_flight(left)) table.complete(std::exchange(left, 0), {});
    if (right != 0 && table.in_flight(right)) table.complete(std::exchange(right, 0), {});
  }
  EXPECT_EQ(table.count(), 0u);
}

// Random begins, completions, drops and expiries against a plain model.
TEST(OpTable, agrees_with_a_model_over_random_histories) {
  Prng prng(11);
  OpTable table(64);
  struct Live {
    Task<> task;
    std::unique_ptr<Outcome> outcome;
    uint64_t deadline_ns;
  };
  std::vector<Live> live;
  std::vector<Token> dead;
  uint64_t now_ns = 0;
  uint64_t stale = 0;
  for (int step = 0; step < 50'000; ++step) {
    now_ns += prng.below(3);
    const uint64_t choice = prng.below(100);
    if (choice < 45) {
      auto outcome = std::make_unique<Outcome>();
      const uint64_t deadline_ns = now_ns + 1 + prng.below(100);
      Task<> task = run_one(table, deadline_ns, *outcome);
      task.start();
      ASSERT_EQ(outcome->token == 0, live.size() == 64);
      if (outcome->token != 0) live.push_back({std::move(task), std::move(outcome), deadline_ns});
    } else if (choice < 85 && !live.empty()) {
      const size_t at = prng.below(live.size());
      const Token token = live[at].outcome->token;
      if (choice < 75) {
        ASSERT_TRUE(table.complete(token, {.value = token}));
        ASSERT_EQ(live[at].outcome->value, token);
      }
      dead.push_back(token);
      std::swap(live[at], live.back());
      live.pop_back();
    } else if (choice < 90 && !dead.empty()) {
      ASSERT_FALSE(table.complete(dead[prng.below(dead.size())], {}));
      ++stale;
    } else {
      const auto overdue =
          std::ranges::count_if(live, [&](const Live& it) { return it.deadline_ns <= now_ns; });
      ASSERT_EQ(table.expire(now_ns), static_cast<size_t>(overdue));
      for (const Live& it : live) {
        ASSERT_EQ(it.outcome->code.has_value(), it.deadline_ns <= now_ns);
        if (it.outcome->code) dead.push_back(it.outcome->token);
      }
      std::erase_if(live, [](const Live& it) { return it.outcome->code.has_value(); });
    }
    ASSERT_EQ(table.count(), live.size());
    for (const Live& it : live) ASSERT_LE(table.next_deadline_ns(), it.deadline_ns);
  }
  EXPECT_EQ(table.stale_count(), stale);
}

}  // namespace
}  // namespace refract::runtime
