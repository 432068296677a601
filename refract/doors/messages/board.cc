// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/messages/board.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "refract/base/check.h"
#include "refract/doors/redis/glob.h"

namespace refract::doors::redis {
namespace {

// What a subscription takes beside its name: in the table of all threads, in its own thread and in its
// connection.
constexpr size_t kSubscriptionBytes = 352;
// Longer tails are shared, which costs this much for each that holds one.
constexpr size_t kSharedMin = size_t{4} * 1024;
constexpr size_t kSharedCost = 256;
// Of one turn's messages, in all their subscribers of the own thread. What is more waits until these are
// sent, or wait in connections whose memory is counted.
constexpr size_t kHeardBytesMax = size_t{32} << 20;

constexpr std::string_view kHeadOfChannel = "3\r\n$7\r\nmessage\r\n";
constexpr std::string_view kHeadOfShardChannel = "3\r\n$8\r\nsmessage\r\n";

void append_bulk(std::string& text, std::string_view bytes) {
  char digits[20];
  const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), bytes.size());
  text += '$';
  text.append(digits, end);
  text += "\r\n";
  text += bytes;
  text += "\r\n";
}

std::string tail_of(std::string_view channel, std::string_view message) {
  constexpr size_t kRest = 64;
  std::string tail;
  tail.reserve(channel.size() + message.size() + kRest);
  append_bulk(tail, channel);
  append_bulk(tail, message);
  return tail;
}

std::unique_ptr<Hearers> new_hearers(TopicKind kind, std::string_view name) {
  auto hearers = std::make_unique<Hearers>();
  hearers->head = kind == TopicKind::kChannel ? kHeadOfChannel : kHeadOfShardChannel;
  if (kind == TopicKind::kPattern) {
    hearers->own_head = "4\r\n$8\r\npmessage\r\n";
    append_bulk(hearers->own_head, name);
    hearers->head = hearers->own_head;
  }
  return hearers;
}

auto part_at(auto& parts, size_t place) noexcept {
  return std::ranges::find(parts, place, &Topic::Part::place);
}

}  // namespace

// Of a name; of a pattern all, in their order.
class Board::Lock {
 public:
  Lock(const Board& board, TopicKind kind, std::string_view name)
      : board_(board),
        begin_(kind == TopicKind::kPattern ? 0 : stripe_of(name)),
        end_(kind == TopicKind::kPattern ? kStripes : begin_ + 1) {
    for (size_t i = begin_; i < end_; ++i) board_.stripes_[i].mutex.lock();
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() {
    for (size_t i = begin_; i < end_; ++i) board_.stripes_[i].mutex.unlock();
  }
  [[nodiscard]] size_t stripe() const noexcept { return begin_; }

 private:
  const Board& board_;
  const size_t begin_;
  const size_t end_;
};

Board::Board(size_t threads) {
  seats_.reserve(threads);
  queues_.reserve(threads * threads);
  for (size_t i = 0; i < threads; ++i) {
    seats_.push_back(std::make_unique<Seat>());
    seats_.back()->plans.resize(threads);
    seats_.back()->ends.resize(threads);
  }
  for (size_t i = 0; i < threads * threads; ++i) queues_.push_back(std::make_unique<LetterQueue>());
}

Board::~Board() = default;

void Board::sit(size_t place, runtime::Shard& shard) {
  const std::lock_guard lock(seats_[place]->mutex);
  seats_[place]->shard = &shard;
}

void Board::stand_up(size_t place) {
  const std::lock_guard lock(seats_[place]->mutex);
  seats_[place]->shard = nullptr;
}

void Board::note_ends(size_t place) {
  for (size_t from = 0; from < seats_.size(); ++from) seats_[place]->ends[from] = queue(from, place).end();
}

size_t Board::hand_out_until_ends(size_t place) {
  size_t count = 0;
  Letter letter;
  for (size_t from = 0; from < seats_.size(); ++from) {
    const size_t end = seats_[place]->ends[from];
    while (queue(from, place).take_before(end, letter)) {
      const bool is_shared = static_cast<bool>(letter.shared);
      for (const Hearers* const hearers : letter.to) {
        const Message message{.head = hearers->head,
                              .tail = is_shared ? letter.shared.text() : letter.text,
                              .shared = is_shared ? &letter.shared : nullptr};
        for (Subscriber* const one : hearers->all) one->hear(message);
      }
      ++count;
    }
  }
  return count;
}

// What is put behind the exchange sets it again.
size_t Board::take_mail(size_t place) {
  seats_[place]->has_mail.exchange(false);
  note_ends(place);
  return hand_out_until_ends(place);
}

bool Board::join(size_t place, Subscriber& subscriber, TopicKind kind, std::string_view name) {
  const Topic* joined = nullptr;
  Hearers* hearers = nullptr;
  {
    const Lock lock(*this, kind, name);
    Topics& topics = topics_of(*this, kind, lock.stripe());
    auto found = topics.find(name);
    if (found == topics.end()) {
      found = topics.emplace(std::string(name), Topic()).first;
      found->second.kind = kind;
      found->second.name = found->first;
      topics_.fetch_add(1);
    }
    Topic& topic = found->second;
    auto part = part_at(topic.parts, place);
    if (part == topic.parts.end()) {
      topic.parts.push_back({.place = place, .count = 0, .hearers = new_hearers(kind, name)});
      part = topic.parts.end() - 1;
    }
    const bool is_there = subscriber.is_subscribed() &&
                          subscriber.subscriptions_->by_kind[static_cast<size_t>(kind)].contains(&topic);
    if (is_there) return false;
    ++part->count;
    joined = &topic;
    hearers = part->hearers.get();
    note_ends(place);
  }
  (void)hand_out_until_ends(place);
  if (!subscriber.is_subscribed()) subscriber.subscriptions_ = std::make_unique<Subscriber::Subscriptions>();
  Subscriber::Subscriptions& all = *subscriber.subscriptions_;
  all.by_kind[static_cast<size_t>(kind)].emplace(
      joined, Subscriber::Place{.hearers = hearers, .index = hearers->all.size()});
  all.bytes += kSubscriptionBytes + name.size();
  hearers->all.push_back(&subscriber);
  return true;
}

bool Board::leave(size_t place, Subscriber& subscriber, TopicKind kind, std::string_view name) {
  if (!subscriber.is_subscribed()) return false;
  const Topic* topic = nullptr;
  {
    const Lock lock(*this, kind, name);
    const Topics& topics = topics_of(*this, kind, lock.stripe());
    const auto found = topics.find(name);
    if (found != topics.end()) topic = &found->second;
  }
  // Where this thread has no part in it, it may be gone by now: then its address is not looked behind.
  const auto& mine = subscriber.subscriptions_->by_kind[static_cast<size_t>(kind)];
  if (topic == nullptr || !mine.contains(topic)) return false;
  leave(place, subscriber, *topic);
  return true;
}

// The topic stays for as long as this thread has a subscriber to it.
void Board::leave(size_t place, Subscriber& subscriber, const Topic& topic) {
  const TopicKind kind = topic.kind;
  Subscriber::Subscriptions& all = *subscriber.subscriptions_;
  auto& mine = all.by_kind[static_cast<size_t>(kind)];
  const auto own = mine.find(&topic);
  const Subscriber::Place at = own->second;
  all.bytes -= kSubscriptionBytes + topic.name.size();
  std::unique_ptr<Hearers> last;
  {
    const Lock lock(*this, kind, topic.name);
    Topics& topics = topics_of(*this, kind, lock.stripe());
    const auto found = topics.find(topic.name);
    std::vector<Topic::Part>& parts = found->second.parts;
    const auto part = part_at(parts, place);
    if (--part->count == 0) {
      last = std::move(part->hearers);
      parts.erase(part);
    }
    if (parts.empty()) {
      topics.erase(found);
      topics_.fetch_sub(1);
    }
    note_ends(place);
  }
  (void)hand_out_until_ends(place);
  std::vector<Subscriber*>& hearers = at.hearers->all;
  Subscriber* const moved = hearers.back();
  hearers[at.index] = moved;
  hearers.pop_back();
  if (moved != &subscriber) {
    moved->subscriptions_->by_kind[static_cast<size_t>(kind)].find(own->first)->second.index = at.index;
  }
  mine.erase(own);
  const bool is_none = std::ranges::all_of(all.by_kind, [](const auto& one) { return one.empty(); });
  if (is_none) subscriber.subscriptions_.reset();
}

void Board::leave_all(size_t place, Subscriber& subscriber, TopicKind kind) {
  while (subscriber.count(kind) > 0) {
    leave(place, subscriber, *subscriber.subscriptions_->by_kind[static_cast<size_t>(kind)].begin()->first);
  }
}

void Board::leave_all(size_t place, Subscriber& subscriber) {
  for (const TopicKind kind : {TopicKind::kChannel, TopicKind::kPattern, TopicKind::kShardChannel}) {
    leave_all(place, subscriber, kind);
  }
}

bool Board::leave_some(size_t place, Subscriber& subscriber) {
  constexpr size_t kMost = 1000;
  for (size_t i = 0; i < kMost && subscriber.is_subscribed(); ++i) {
    const auto some = std::ranges::find_if(subscriber.subscriptions_->by_kind,
                                           [](const auto& one) { return !one.empty(); });
    leave(place, subscriber, *some->begin()->first);
  }
  return !subscriber.is_subscribed();
}

std::vector<std::string> Board::names_of(const Subscriber& subscriber, TopicKind kind) {
  std::vector<std::string> names;
  if (!subscriber.is_subscribed()) return names;
  names.reserve(subscriber.count(kind));
  for (const auto& [topic, place] : subscriber.subscriptions_->by_kind[static_cast<size_t>(kind)]) {
    names.emplace_back(topic->name);
  }
  return names;
}

void Board::plan(Seat& seat, const Topic& topic, size_t tail_bytes) const {
  for (const Topic::Part& part : topic.parts) {
    Plan& plan = seat.plans[part.place];
    if (plan.to.empty()) {
      seat.used.push_back(part.place);
      plan.receivers = 0;
      plan.cost = tail_bytes;
    }
    plan.to.push_back(part.hearers.get());
    plan.receivers += part.count;
    plan.cost += part.count * (tail_bytes < kSharedMin ? kHeadOfChannel.size() + tail_bytes : kSharedCost);
  }
}

void Board::plan_all(Seat& seat, TopicKind kind, std::string_view channel, size_t tail_bytes) const {
  for (const size_t used : seat.used) seat.plans[used].to.clear();
  seat.used.clear();
  const Topics& topics = topics_of(*this, kind, stripe_of(channel));
  const auto found = topics.find(channel);
  if (found != topics.end()) plan(seat, found->second, tail_bytes);
  if (kind != TopicKind::kChannel) return;
  for (const auto& [pattern, topic] : patterns_) {
    if (matches(pattern, channel)) plan(seat, topic, tail_bytes);
  }
}

bool Board::has_room(size_t place) const noexcept {
  const Seat& seat = *seats_[place];
  return std::ranges::all_of(seat.used, [&](size_t to) {
    const size_t cost = seat.plans[to].cost;
    if (to != place) return queues_[place * seats_.size() + to]->has_room(cost);
    return seat.heard_bytes == 0 || seat.heard_bytes + cost <= kHeardBytesMax;
  });
}

std::optional<uint64_t> Board::publish(size_t place, TopicKind kind, std::string_view channel,
                                       std::string_view message) {
  if (topics_.load() == 0) return 0;
  Seat& seat = *seats_[place];
  const size_t tail_bytes = channel.size() + message.size();
  std::string text;
  SharedText shared;
  uint64_t receivers = 0;
  {
    std::unique_lock lock(stripes_[stripe_of(channel)].mutex);
    for (;;) {
      plan_all(seat, kind, channel, tail_bytes);
      if (seat.used.empty()) return 0;
      if (!has_room(place)) return std::nullopt;
      if (tail_bytes < kSharedMin || shared) break;
      // Not while others wait. What has joined meanwhile hears it, too.
      lock.unlock();
      shared = SharedText(tail_of(channel, message), shared_bytes_);
      lock.lock();
    }
    if (!shared) text = tail_of(channel, message);
    for (const size_t to : seat.used) {
      const Plan& plan = seat.plans[to];
      receivers += plan.receivers;
      if (to == place) continue;
      queue(place, to).put({.text = text, .shared = shared, .to = plan.to, .cost = plan.cost});
    }
  }
  for (const size_t to : seat.used) {
    if (to != place) wake(to);
  }
  const Plan& own = seat.plans[place];
  if (own.to.empty()) return receivers;
  seat.heard_bytes += own.cost;
  for (const Hearers* const hearers : own.to) {
    const Message said{
        .head = hearers->head, .tail = shared ? shared.text() : text, .shared = shared ? &shared : nullptr};
    for (Subscriber* const one : hearers->all) one->hear(said);
  }
  return receivers;
}

void Board::wake(size_t place) {
  Seat& seat = *seats_[place];
  if (seat.has_mail.exchange(true)) return;
  const std::lock_guard lock(seat.mutex);
  if (seat.shard != nullptr) seat.shard->wake();
}

size_t Board::topics(TopicKind kind) const {
  const size_t stripes = kind == TopicKind::kPattern ? 1 : kStripes;
  size_t sum = 0;
  for (size_t i = 0; i < stripes; ++i) {
    const std::lock_guard lock(stripes_[i].mutex);
    sum += topics_of(*this, kind, i).size();
  }
  return sum;
}

uint64_t Board::hearers(TopicKind kind, std::string_view name) const {
  const size_t stripe = stripe_of(name);
  const std::lock_guard lock(stripes_[stripe].mutex);
  const Topics& topics = topics_of(*this, kind, stripe);
  const auto found = topics.find(name);
  uint64_t sum = 0;
  if (found == topics.end()) return sum;
  for (const Topic::Part& part : found->second.parts) sum += part.count;
  return sum;
}

void Board::visit(TopicKind kind, const std::function<void(std::string_view name)>& visit) const {
  const size_t stripes = kind == TopicKind::kPattern ? 1 : kStripes;
  for (size_t i = 0; i < stripes; ++i) {
    const std::lock_guard lock(stripes_[i].mutex);
    for (const auto& [name, topic] : topics_of(*this, kind, i)) visit(name);
  }
}

}  // namespace refract::doors::redis
