// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/messages/board.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/runtime/poller.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/shard_thread.h"

namespace refract::doors::redis {
namespace {

constexpr uint64_t kHearing_ns = 60 * kSecond_ns;

// Has what it hears as a client in RESP2 has it.
class Ear final : public Subscriber {
 public:
  Ear(Board& board, size_t place) : board_(board), place_(place) {}
  ~Ear() { board_.leave_all(place_, *this); }
  Ear(const Ear&) = delete;
  Ear& operator=(const Ear&) = delete;

  [[nodiscard]] bool join(TopicKind kind, std::string_view name) {
    return board_.join(place_, *this, kind, name);
  }
  [[nodiscard]] bool leave(TopicKind kind, std::string_view name) {
    return board_.leave(place_, *this, kind, name);
  }
  void leave_all() { board_.leave_all(place_, *this); }
  [[nodiscard]] std::string heard() { return std::exchange(heard_, {}); }
  [[nodiscard]] uint64_t heard_count() const noexcept { return count_; }
  [[nodiscard]] const std::vector<SharedText>& shared() const noexcept { return shared_; }
  void forget() { shared_.clear(); }

 private:
  void hear(const Message& message) noexcept override {
    ++count_;
    constexpr size_t kShortBytes = 1'000'000;
    if (message.tail.size() < kShortBytes) heard_ += fmt::format("*{}{}", message.head, message.tail);
    if (message.shared != nullptr) shared_.push_back(*message.shared);
  }

  Board& board_;
  size_t place_;
  std::string heard_;
  uint64_t count_ = 0;
  std::vector<SharedText> shared_;
};

constexpr auto kChannel = TopicKind::kChannel;
constexpr auto kPattern = TopicKind::kPattern;
constexpr auto kShardChannel = TopicKind::kShardChannel;

std::string plain_message(std::string_view channel, std::string_view text) {
  return fmt::format("*3\r\n$7\r\nmessage\r\n${}\r\n{}\r\n${}\r\n{}\r\n", channel.size(), channel,
                     text.size(), text);
}

// Claim: a message is heard once for the channel and once for each pattern, by those that are subscribed, in
// Redis's form; shard channels are others.
TEST(Board, a_message_is_heard_for_its_channel_and_for_each_pattern) {
  Board board(1);
  Ear one(board, 0);
  Ear other(board, 0);
  EXPECT_EQ(board.publish(0, kChannel, "news", "x"), 0U);
  EXPECT_TRUE(one.join(kChannel, "news"));
  EXPECT_FALSE(one.join(kChannel, "news"));
  EXPECT_TRUE(one.join(kPattern, "n*"));
  EXPECT_TRUE(one.join(kPattern, "*s"));
  EXPECT_TRUE(one.join(kPattern, "x*"));
  EXPECT_TRUE(one.join(kShardChannel, "news"));
  EXPECT_TRUE(other.join(kChannel, "news"));
  EXPECT_EQ(board.publish(0, kChannel, "news", "hello"), 4U);
  EXPECT_EQ(other.heard(), plain_message("news", "hello"));
  const std::string heard = one.heard();
  EXPECT_EQ(one.heard_count(), 3U);
  EXPECT_TRUE(heard.starts_with(plain_message("news", "hello")));
  EXPECT_NE(heard.find("*4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$5\r\nhello\r\n"),
            std::string::npos);
  EXPECT_EQ(board.publish(0, kShardChannel, "news", ""), 1U);
  EXPECT_EQ(one.heard(), "*3\r\n$8\r\nsmessage\r\n$4\r\nnews\r\n$0\r\n\r\n");
  EXPECT_EQ(other.heard(), "");
  EXPECT_EQ(board.topics(kChannel), 1U);
  EXPECT_EQ(board.topics(kPattern), 3U);
  EXPECT_EQ(board.topics(kShardChannel), 1U);
  EXPECT_EQ(board.hearers(kChannel, "news"), 2U);
  EXPECT_EQ(board.hearers(kChannel, "n*"), 0U);
  EXPECT_EQ(one.count(kPattern), 3U);
  EXPECT_GT(one.subscription_bytes(), other.subscription_bytes());
  std::vector<std::string> names = Board::names_of(one, kPattern);
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"*s", "n*", "x*"}));
  EXPECT_TRUE(one.leave(kChannel, "news"));
  EXPECT_FALSE(one.leave(kChannel, "news"));
  EXPECT_FALSE(one.leave(kChannel, "nothing"));
  EXPECT_EQ(board.publish(0, kChannel, "news", "again"), 3U);
  one.leave_all();
  other.leave_all();
  EXPECT_FALSE(one.is_subscribed());
  EXPECT_EQ(one.subscription_bytes(), 0U);
  EXPECT_EQ(board.topics(kChannel) + board.topics(kPattern) + board.topics(kShardChannel), 0U);
}

// Claim: those that join and leave in any order hear what is published while they are there.
TEST(Board, those_that_leave_make_room_for_each_other) {
  Board board(1);
  Prng prng(7);
  std::vector<std::unique_ptr<Ear>> ears;
  std::map<size_t, uint64_t> wanted;
  for (size_t i = 0; i < 50; ++i) ears.push_back(std::make_unique<Ear>(board, 0));
  for (int turn = 0; turn < 20'000; ++turn) {
    const size_t i = prng.below(ears.size());
    Ear& ear = *ears[i];
    if (prng.below(2) == 0) {
      (void)ear.join(kChannel, "c");
    } else {
      (void)ear.leave(kChannel, "c");
    }
    if (prng.below(8) != 0) continue;
    uint64_t there = 0;
    for (size_t k = 0; k < ears.size(); ++k) {
      there += ears[k]->count(kChannel);
      wanted[k] += ears[k]->count(kChannel);
    }
    (void)board.poll(0);
    ASSERT_EQ(board.publish(0, kChannel, "c", "m"), there);
  }
  for (size_t k = 0; k < ears.size(); ++k) EXPECT_EQ(ears[k]->heard_count(), wanted[k]) << k;
}

// Claim: one with very many subscriptions may leave them in several steps.
TEST(Board, very_many_are_left_in_steps) {
  Board board(1);
  Ear ear(board, 0);
  constexpr size_t kCount = 3500;
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(ear.join(i % 2 == 0 ? kChannel : kPattern, std::to_string(i)));
  }
  size_t steps = 1;
  while (!board.leave_some(0, ear)) {
    EXPECT_LT(ear.count(kChannel) + ear.count(kPattern), kCount);
    ++steps;
  }
  EXPECT_GT(steps, 1U);
  EXPECT_LT(steps, 20U);
  EXPECT_FALSE(ear.is_subscribed());
  EXPECT_EQ(board.topics(kChannel) + board.topics(kPattern), 0U);
}

// Claim: what is counted is heard, and nothing else, whenever the other thread looks: those that leave before
// it does hear what was published before, those that join then do not.
TEST(Board, another_threads_subscribers_hear_what_was_published_while_they_were_there) {
  Board board(2);
  Ear leaving(board, 1);
  Ear staying(board, 1);
  Ear joining(board, 1);
  ASSERT_TRUE(leaving.join(kChannel, "c"));
  ASSERT_TRUE(staying.join(kPattern, "c*"));
  EXPECT_FALSE(board.has_mail(1));
  EXPECT_EQ(board.publish(0, kChannel, "c", "1"), 2U);
  EXPECT_TRUE(board.has_mail(1));
  EXPECT_FALSE(board.has_mail(0));
  EXPECT_EQ(leaving.heard(), "");
  ASSERT_TRUE(leaving.leave(kChannel, "c"));
  EXPECT_EQ(leaving.heard(), plain_message("c", "1"));
  EXPECT_EQ(staying.heard_count(), 1U);
  EXPECT_EQ(board.publish(0, kChannel, "c", "2"), 1U);
  ASSERT_TRUE(joining.join(kChannel, "c"));
  EXPECT_EQ(board.publish(0, kChannel, "c", "3"), 2U);
  EXPECT_EQ(board.poll(1), 1U);
  EXPECT_FALSE(board.has_mail(1));
  EXPECT_EQ(board.poll(1), 0U);
  EXPECT_EQ(staying.heard_count(), 3U);
  EXPECT_EQ(leaving.heard_count(), 1U);
  EXPECT_EQ(joining.heard(), plain_message("c", "3"));
}

// Claim: a queue that is full, of messages or of what they cost, makes messages wait and lets no part of them
// through; there is room again when the other thread has looked.
TEST(Board, messages_wait_for_room) {
  Board board(3);
  std::vector<std::unique_ptr<Ear>> ears;
  for (int i = 0; i < 100; ++i) {
    ears.push_back(std::make_unique<Ear>(board, 1));
    ASSERT_TRUE(ears.back()->join(kChannel, "c"));
  }
  Ear third(board, 2);
  ASSERT_TRUE(third.join(kChannel, "c"));
  size_t sent = 0;
  while (board.publish(0, kChannel, "c", "m")) ++sent;
  EXPECT_EQ(sent, LetterQueue::kLettersMax);
  EXPECT_EQ(board.poll(2), sent);
  EXPECT_FALSE(board.publish(0, kChannel, "c", "m"));
  EXPECT_EQ(board.poll(2), 0U);
  EXPECT_EQ(board.poll(1), sent);
  EXPECT_EQ(board.publish(0, kChannel, "c", "m"), 101U);
  EXPECT_EQ(board.poll(1) + board.poll(2), 2U);
  // Each is copied into every connection.
  const std::string text(2000, 't');
  sent = 0;
  while (board.publish(0, kChannel, "c", text)) ++sent;
  EXPECT_LT(sent, LetterQueue::kLettersMax);
  EXPECT_GT(sent, 100U);
  EXPECT_LE(sent * 100 * text.size(), LetterQueue::kCostMax);
  EXPECT_EQ(board.poll(1), sent);
  (void)board.poll(2);
  // However long it is.
  EXPECT_EQ(board.publish(0, kChannel, "c", std::string(40'000'000, 'l')), 101U);
  EXPECT_FALSE(board.publish(0, kChannel, "c", "m"));
  EXPECT_EQ(board.poll(1) + board.poll(2), 2U);
  EXPECT_EQ(board.publish(0, kChannel, "c", "m"), 101U);
}

// Claim: the same of a thread's own subscribers, until its next turn.
TEST(Board, a_turn_is_bounded) {
  Board board(1);
  std::vector<std::unique_ptr<Ear>> ears;
  for (int i = 0; i < 1000; ++i) {
    ears.push_back(std::make_unique<Ear>(board, 0));
    ASSERT_TRUE(ears.back()->join(kChannel, "c"));
  }
  const std::string text(2000, 't');
  for (int turn = 0; turn < 3; ++turn) {
    (void)board.poll(0);
    size_t sent = 0;
    while (board.publish(0, kChannel, "c", text)) ++sent;
    EXPECT_GT(sent, 10U);
    EXPECT_LT(sent, 20U);
  }
}

// Claim: a long message is there once, whatever the number of threads and subscribers, until the last of them
// lets go of it.
TEST(Board, a_long_message_is_there_once) {
  Board board(2);
  Ear first(board, 0);
  Ear second(board, 0);
  Ear third(board, 1);
  for (Ear* const one : {&first, &second, &third}) ASSERT_TRUE(one->join(kChannel, "c"));
  const std::string text(100'000, 't');
  EXPECT_EQ(board.publish(0, kChannel, "c", text), 3U);
  (void)board.poll(1);
  for (Ear* const one : {&first, &second, &third}) {
    EXPECT_EQ(one->heard(), plain_message("c", text));
    ASSERT_EQ(one->shared().size(), 1U);
    EXPECT_EQ(one->shared()[0].text().data(), first.shared()[0].text().data());
  }
  EXPECT_GT(board.shared_bytes(), text.size());
  EXPECT_LT(board.shared_bytes(), text.size() + 100);
  first.forget();
  third.forget();
  EXPECT_GT(board.shared_bytes(), text.size());
  second.forget();
  EXPECT_EQ(board.shared_bytes(), 0U);
}

// One thread of several that all publish, join, leave and hear.
class Talker final : public runtime::Poller {
 public:
  struct Sums {
    std::atomic<uint64_t> receivers = 0;
    std::atomic<uint64_t> heard = 0;
    std::atomic<uint64_t> disorders = 0;
    std::atomic<size_t> ready = 0;
  };

  Talker(Board& board, size_t place, runtime::Shard& shard, Sums& sums)
      : board_(board), place_(place), shard_(shard), sums_(sums), prng_(place + 1) {
    shard_.add(*this);
    board_.sit(place_, shard_);
    for (int i = 0; i < 4; ++i) ears_.push_back(std::make_unique<OrderedEar>(sums_));
  }
  ~Talker() override {
    for (const auto& ear : ears_) board_.leave_all(place_, *ear);
    board_.stand_up(place_);
    shard_.remove(*this);
  }
  Talker(const Talker&) = delete;
  Talker& operator=(const Talker&) = delete;

  size_t poll() noexcept override {
    const size_t heard = board_.poll(place_);
    if (left_ == 0) return heard;
    Subscriber& ear = *ears_[prng_.below(ears_.size())];
    const TopicKind kind = prng_.below(4) == 0 ? kPattern : kChannel;
    const std::string_view name = kind == kPattern ? "c*" : names_[prng_.below(3)];
    if (prng_.below(3) == 0) {
      (void)board_.leave(place_, ear, kind, name);
    } else {
      (void)board_.join(place_, ear, kind, name);
    }
    for (int i = 0; i < 5 && left_ > 0; ++i) {
      const auto count =
          board_.publish(place_, kChannel, names_[prng_.below(3)], fmt::format("{} {}", place_, sent_ + 1));
      if (!count) break;
      sums_.receivers += *count;
      ++sent_;
      --left_;
    }
    return heard + 1;
  }
  [[nodiscard]] bool prepare_sleep() noexcept override { return left_ == 0 && !board_.has_mail(place_); }
  [[nodiscard]] std::string_view name() const noexcept override { return "member"; }
  [[nodiscard]] bool is_over() const noexcept { return left_ == 0; }

 private:
  // Of each thread's messages on a channel the numbers rise; of one that is heard for a pattern, too, the
  // same one comes again.
  class OrderedEar final : public Subscriber {
   public:
    explicit OrderedEar(Sums& sums) : sums_(sums) {}

   private:
    void hear(const Message& message) noexcept override {
      ++sums_.heard;
      const std::string_view tail = message.tail;
      const std::string_view channel = tail.substr(tail.find('\n') + 1, 2);
      const std::string_view text = tail.substr(tail.rfind('\n', tail.size() - 3) + 1);
      const std::string from = fmt::format("{}{}{}", message.head.substr(0, 1), channel, text.substr(0, 1));
      const uint64_t number = std::stoull(std::string(text.substr(2)));
      if (number <= last_[from]) ++sums_.disorders;
      last_[from] = number;
    }

    Sums& sums_;
    std::map<std::string, uint64_t> last_;
  };

  static constexpr std::string_view names_[] = {"c0", "c1", "c2"};
  Board& board_;
  size_t place_;
  runtime::Shard& shard_;
  Sums& sums_;
  Prng prng_;
  std::vector<std::unique_ptr<OrderedEar>> ears_;
  uint64_t sent_ = 0;
  uint64_t left_ = 20'000;
};

// Claim: between threads that all publish at a time, and whose subscribers come and go, as many messages are
// heard as their publishers were told, those of each in their order; no thread waits for ever, and one that
// sleeps is woken.
TEST(Board, as_many_messages_are_heard_as_were_counted) {
  constexpr size_t kThreads = 3;
  Board board(kThreads);
  Talker::Sums sums;
  std::atomic<size_t> over = 0;
  {
    std::vector<std::unique_ptr<runtime::ShardThread>> threads;
    threads.reserve(kThreads);
    for (size_t place = 0; place < kThreads; ++place) {
      auto thread = runtime::ShardThread::start({.name = "board", .on_end = [](int) {}}, [&, place] {
        runtime::Shard shard(system_clock());
        const Talker member(board, place, shard, sums);
        const uint64_t end_ns = shard.refresh_now() + kHearing_ns;
        EXPECT_TRUE(shard.run_until([&] { return member.is_over(); }, end_ns));
        ++over;
        const auto is_heard = [&] { return over == kThreads && sums.heard == sums.receivers; };
        while (!is_heard() && shard.refresh_now() < end_ns) {
          (void)shard.run_until(is_heard, shard.refresh_now() + kMillisecond_ns);
        }
        return 0;
      });
      ASSERT_TRUE(thread.has_value());
      threads.push_back(std::move(*thread));
    }
  }
  EXPECT_EQ(over.load(), kThreads);
  EXPECT_GT(sums.receivers.load(), 20'000U);
  EXPECT_EQ(sums.heard.load(), sums.receivers.load());
  EXPECT_EQ(sums.disorders.load(), 0U);
  EXPECT_EQ(board.topics(kChannel) + board.topics(kPattern), 0U);
}

}  // namespace
}  // namespace refract::doors::redis
