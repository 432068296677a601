// SPDX-License-Identifier: Apache-2.0
// Which channels and patterns the connections of all threads are subscribed to, and the ways of messages to
// them.
//
// (B1) What belongs to a topic, a thread's own list of subscribers aside, is guarded by the lock of its name;
//      patterns by all locks together, so one of them suffices to read them.
// (B2) A message is counted, and put into the queues to other threads, under the lock of its channel.
// (B3) What joins or leaves is counted under the same lock, and its thread hands out all that was put into
//      its queues before that, before the list of subscribers changes. So a subscriber hears all messages in
//      whose count it is, and no others, and letters name lists that are there.
// (B4) Messages of one thread to another leave and arrive in one order.
//
// Threads: any; each one works at its own place.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "refract/doors/messages/letters.h"
#include "refract/doors/messages/shared_text.h"
#include "refract/doors/messages/subscriber.h"
#include "refract/runtime/shard.h"

namespace refract::doors::redis {

// Subscribers of one thread to one topic: that thread's alone.
struct Hearers {
  std::string_view head;  // Of a message to them.
  std::string own_head;   // Of a pattern's, which has the pattern in it.
  std::vector<Subscriber*> all;
};

struct Topic {
  struct Part {
    size_t place = 0;  // Of the thread.
    size_t count = 0;
    std::unique_ptr<Hearers> hearers;
  };

  TopicKind kind = TopicKind::kChannel;
  std::string_view name;
  std::vector<Part> parts;  // Each has a count.
};

class Board {
 public:
  explicit Board(size_t threads);
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;
  ~Board();

  // By the thread of this place: from now on it is woken for messages, and then no longer.
  void sit(size_t place, runtime::Shard& shard);
  void stand_up(size_t place);
  // By that thread, at the beginning of each of its turns: hands out what others have published. How much.
  size_t poll(size_t place) {
    Seat& seat = *seats_[place];
    seat.heard_bytes = 0;
    return seat.has_mail.load(std::memory_order_acquire) ? take_mail(place) : 0;
  }
  // The same within a turn.
  void take_mail_if_any(size_t place) {
    if (has_mail(place)) (void)take_mail(place);
  }
  [[nodiscard]] bool has_mail(size_t place) const noexcept {
    return seats_[place]->has_mail.load(std::memory_order_acquire);
  }

  // Of a subscriber of the thread of this place. False: it was so already.
  bool join(size_t place, Subscriber& subscriber, TopicKind kind, std::string_view name);
  bool leave(size_t place, Subscriber& subscriber, TopicKind kind, std::string_view name);
  void leave_all(size_t place, Subscriber& subscriber, TopicKind kind);
  void leave_all(size_t place, Subscriber& subscriber);
  // So many that others hardly wait for it. True: these were all.
  [[nodiscard]] bool leave_some(size_t place, Subscriber& subscriber);
  // What it is subscribed to.
  [[nodiscard]] static std::vector<std::string> names_of(const Subscriber& subscriber, TopicKind kind);

  // By the thread of this place, inside of a poll. Returns how many subscribers of all threads hear it.
  // Nothing: the message is to wait until this thread, or another one, has sent what it has; nothing was
  // done.
  [[nodiscard]] std::optional<uint64_t> publish(size_t place, TopicKind kind, std::string_view channel,
                                                std::string_view message);

  [[nodiscard]] size_t topics(TopicKind kind) const;
  [[nodiscard]] uint64_t hearers(TopicKind kind, std::string_view name) const;
  // Under a lock: `visit` does little.
  void visit(TopicKind kind, const std::function<void(std::string_view name)>& visit) const;
  // Of long messages that are not sent to all their subscribers, each once.
  [[nodiscard]] size_t shared_bytes() const noexcept { return shared_bytes_.load(std::memory_order_relaxed); }

 private:
  // What a message is to do in one thread.
  struct Plan {
    std::vector<Hearers*> to;
    size_t receivers = 0;
    size_t cost = 0;
  };
  struct alignas(64) Seat {
    std::atomic<bool> has_mail = false;
    // Its thread's own:
    size_t heard_bytes = 0;  // By its subscribers, of its own messages, in this turn.
    std::vector<size_t> ends;
    std::vector<Plan> plans;  // By places.
    std::vector<size_t> used;
    std::mutex mutex;
    // Below, guarded by it:
    runtime::Shard* shard = nullptr;
  };
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const noexcept { return std::hash<std::string_view>()(name); }
  };
  using Topics = std::unordered_map<std::string, Topic, NameHash, std::equal_to<>>;
  static constexpr size_t kStripes = 16;
  struct alignas(64) Stripe {
    mutable std::mutex mutex;
    Topics channels;
    Topics shard_channels;
  };
  class Lock;

  [[nodiscard]] static size_t stripe_of(std::string_view name) noexcept {
    return NameHash()(name) % kStripes;
  }
  // Of a kind, in this stripe; patterns are in none.
  [[nodiscard]] static auto& topics_of(auto& board, TopicKind kind, size_t stripe) noexcept {
    if (kind == TopicKind::kPattern) return board.patterns_;
    return kind == TopicKind::kChannel ? board.stripes_[stripe].channels
                                       : board.stripes_[stripe].shard_channels;
  }
  [[nodiscard]] LetterQueue& queue(size_t from, size_t to) noexcept {
    return *queues_[from * seats_.size() + to];
  }
  void note_ends(size_t place);
  size_t hand_out_until_ends(size_t place);
  size_t take_mail(size_t place);
  void plan(Seat& seat, const Topic& topic, size_t tail_bytes) const;
  void plan_all(Seat& seat, TopicKind kind, std::string_view channel, size_t tail_bytes) const;
  [[nodiscard]] bool has_room(size_t place) const noexcept;
  void wake(size_t place);
  void leave(size_t place, Subscriber& subscriber, const Topic& topic);

  std::vector<std::unique_ptr<Seat>> seats_;
  std::vector<std::unique_ptr<LetterQueue>> queues_;  // From each thread to each.
  std::array<Stripe, kStripes> stripes_;
  Topics patterns_;
  std::atomic<size_t> topics_ = 0;
  std::atomic<size_t> shared_bytes_ = 0;
};

}  // namespace refract::doors::redis
