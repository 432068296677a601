// SPDX-License-Identifier: Apache-2.0
#include "refract/client/paths/peers.h"

#include <algorithm>

#include "refract/base/prng.h"
#include "refract/base/units.h"

namespace refract::client {

using runtime::Pending;
using runtime::Task;

namespace {

constexpr int kGrowthWaits = 6;  // Together about 60 ms.
constexpr uint64_t kPause_ns = kMillisecond_ns;
// What a node says while all is well: for those who have no word to look at.
constexpr auto kServing = static_cast<uint64_t>(ServerState::kServing);

bool is_gone(const Connection* connection) noexcept {
  return connection == nullptr || connection->state() == Connection::State::kEnded;
}

}  // namespace

Peers::Peers(runtime::Shard& shard, const Settings& settings)
    : shard_(shard), settings_(settings), peers_(1), client_id_(std::max<uint64_t>(secure_random_u64(), 1)) {
  update_short_ways();
}

Peers::~Peers() {
  ways_->reader = nullptr;
  ways_->connection = nullptr;
  ways_->answering = nullptr;
  ways_->shards.clear();
  ways_->by_slot.clear();
  if (ways_->ticket != nullptr) ways_->ticket->reader = nullptr;
}

void Peers::show_short_ways(ShortWays& ways) {
  ways_ = &ways;
  update_short_ways();
}

void Peers::update_short_ways() {
  Connection* const connection = peers_.size() == 1 ? peers_[0].get() : nullptr;
  if (connection != nullptr && connection->reader() != nullptr) {
    ways_->reader = connection->reader();
    ways_->connection = connection;
    ways_->server_state = connection->server_state_word();
    ways_->hash_seed = ways_->reader->hash_seed();
  } else {
    ways_->reader = nullptr;
    ways_->connection = nullptr;
    ways_->server_state = &kServing;
    ways_->hash_seed = hash_seed_;
  }
  const bool is_asked = connection != nullptr && connection->reader() == nullptr &&
                        connection->state() == Connection::State::kUp &&
                        connection->rpc_alone_for_gets() != nullptr;
  ways_->answering = is_asked ? connection : nullptr;
  if (ReadTicket* const ticket = ways_->ticket) {
    ticket->hash_seed = ways_->hash_seed;
    ticket->reader = ways_->reader == nullptr ? nullptr : &ways_->reader->quick();
  }
  ways_->shards.clear();
  ways_->by_slot.clear();
  if (peers_.size() == 1) return;
  std::vector<ShardReader>& ways = routing_.is_by_slot() ? ways_->by_slot : ways_->shards;
  for (const Connection::Owned& peer : peers_) {
    // One with another seed belongs to another node, and is about to be put aside.
    const bool has_reader =
        peer != nullptr && peer->reader() != nullptr && peer->reader()->hash_seed() == hash_seed_;
    Connection::Reader* const reader = has_reader ? peer->reader() : nullptr;
    ways.push_back({.reader = reader, .connection = reader == nullptr ? nullptr : peer.get()});
  }
}

void Peers::link_changed(Link& /*link*/) noexcept {
  update_short_ways();
}

void Peers::look_around() noexcept {
  for (const Connection::Owned& peer : peers_) {
    if (peer != nullptr) peer->look_around();
  }
}

Task<> Peers::find_out() {
  if (is_known() || guard_.is_child()) co_return;
  Patience patience;
  // Whether it succeeded is what the operation finds out next.
  (void)co_await await_server({.key = {}, .shard = 0}, patience);
}

// The first shard leads: it says how many others there are.
Task<bool> Peers::establish(uint64_t deadline_ns) {
  is_first_connecting_ = true;
  auto found = co_await find_node(shard_, settings_, deadline_ns);
  is_first_connecting_ = false;
  bury();
  if (!found) {
    trouble_ = std::move(found).error();
    co_return false;
  }
  take_first(std::move(*found));
  // All at once; an operation that waits for one of them longer than this says so.
  for (uint32_t index = 1; index < count(); ++index) {
    if (is_gone(at(index))) (void)begin_other(index);
  }
  for (uint32_t index = 1; index < count(); ++index) {
    if (at(index) == nullptr) continue;
    const Use use(*at(index));
    co_await await_first_state(shard_, *at(index), deadline_ns);
  }
  co_return true;
}

void Peers::take_first(Discovery discovery) {
  const NodeFacts facts = discovery.connection->facts();
  // Those to another node, or to shards that there are no more, are of no use.
  for (uint32_t index = 0; index < count(); ++index) {
    Connection::Owned& connection = peers_[index];
    const bool is_other = connection != nullptr && connection->facts().identity != facts.identity;
    if (connection != nullptr && (index == 0 || is_other || index >= facts.shard_count)) {
      put_aside(std::move(connection));
    }
  }
  // Who is connecting to one of the others looks whether it is still there.
  peers_.resize(std::max<uint32_t>(facts.shard_count, 1));
  routing_ = {.shards = count(), .copies = facts.copies};
  hash_seed_ = facts.hash_seed;
  row_ = &discovery.connection->row();
  address_ = std::move(discovery.address);
  chosen_ = std::move(discovery.chosen);
  others_ = std::move(discovery.others);
  peers_[0] = std::move(discovery.connection);
  peers_[0]->watch(this);
  peers_[0]->reach(this);
  ++connections_;
  update_short_ways();
}

bool Peers::begin_other(uint32_t index) {
  auto begun = Connection::begin(shard_, *row_, settings_.request_to(row_->shard_address(address_, index)),
                                 settings_.options.paths);
  if (!begun) {
    trouble_ = std::move(begun).error();
    return false;
  }
  if (peers_[index] != nullptr) put_aside(std::move(peers_[index]));
  peers_[index] = std::move(*begun);
  peers_[index]->watch(this);
  peers_[index]->reach(this);
  update_short_ways();
  return true;
}

Task<bool> Peers::establish_at(uint32_t index, uint64_t deadline_ns) {
  // Where the node itself is another one by now, its first shard knows it.
  if (index == 0 || is_gone(at(0))) {
    const bool reached = co_await establish(deadline_ns);
    co_return reached&& index < count() && at(index) != nullptr&& has_come_up(*at(index));
  }
  if (row_ == nullptr || !begin_other(index)) co_return false;
  Connection& fresh = *at(index);
  const Use use(fresh);
  co_await await_first_state(shard_, fresh, deadline_ns);
  if (!has_come_up(fresh)) {
    trouble_ = fresh.trouble();
    co_return false;
  }
  co_return true;
}

void Peers::put_aside(Connection::Owned connection) {
  messages_before_ += connection->messages_sent();
  losses_before_ += connection->server_losses();
  connection->watch(nullptr);
  connection->reach(nullptr);
  connection->close();
  ended_.push_back(std::move(connection));
}

// REQUIRES: not in the middle of a poll of one of them.
void Peers::bury() noexcept {
  std::erase_if(ended_, [](const auto& connection) { return connection->operations == 0; });
}

Task<bool> Peers::await_server(KeyOwner place, Patience& patience) {
  const uint64_t now = shard_.refresh_now();
  if (patience.deadline_ns == 0) {
    const uint64_t begun_ns = patience.begun_ns != 0 ? patience.begun_ns : now;
    patience.deadline_ns = begun_ns + settings_.options.timeout_ns;
  }
  Connection* connection = at(place);
  if (connection != nullptr && connection->state() == Connection::State::kUp && patience.waits++ > 0) {
    // It is there and says that it is not: do not ask in a circle.
    co_await shard_.sleep_for(std::min(kPause_ns, std::max(patience.deadline_ns, now) - now));
  }
  for (;;) {
    connection = at(place);
    if (connection == nullptr) break;
    const bool may_come =
        connection->state() == Connection::State::kConnecting ||
        (connection->state() == Connection::State::kNoServer && !connection->has_server_given_up());
    if (!may_come) break;
    // Awaiting changes it, which the check does not see.
    Pending change = shard_.ops().begin(patience.deadline_ns);  // NOLINT(misc-const-correctness)
    connection->wake_at_change(change.token());
    const runtime::OpResult woken = co_await change;
    if (woken.code != Code::kOk) break;
  }
  const uint32_t index = index_of(place);
  if ((index == count() || is_gone(at(index))) && shard_.now_ns() < patience.deadline_ns) {
    if (!is_first_connecting_) {
      if (patience.losses++ > 0) co_return false;
      const bool reached = co_await establish_at(index, patience.deadline_ns);
      co_return reached;
    }
    // Another operation is at it, with a deadline of its own.
    while (is_first_connecting_ && shard_.now_ns() < patience.deadline_ns) {
      co_await shard_.sleep_for(kPause_ns);
    }
  }
  connection = at(place);
  if (connection != nullptr && connection->state() == Connection::State::kUp &&
      shard_.now_ns() < patience.deadline_ns) {
    co_return true;
  }
  if (connection != nullptr) trouble_ = connection->trouble();
  co_return false;
}

Task<bool> Peers::await_growth(Connection& connection, Patience& patience) {
  if (connection.refresh()) co_return true;
  if (patience.growth_waits >= kGrowthWaits) co_return false;
  co_await shard_.sleep_for(kPause_ns << patience.growth_waits++);
  co_return true;
}

void Peers::note(const Connection& connection, Code code) {
  if (code == Code::kDeadlineExceeded || code == Code::kIndeterminate) [[unlikely]]
    trouble_ = connection.trouble();
}

void Peers::fill(Route& route) const {
  route.address = address_.empty() ? settings_.target.text() : address_;
  route.chosen = chosen_;
  route.others = others_;
  route.shards = count();
  if (row_ != nullptr) route.transport = row_->name;
  // The first shard has the last word.
  for (uint32_t index = count(); index-- > 0;) {
    if (at(index) != nullptr) at(index)->fill(route);
  }
  if (at(0) == nullptr) route.reason = route.server = "gone";
}

uint64_t Peers::messages_sent() const noexcept {
  uint64_t sum = messages_before_;
  for (const Connection::Owned& peer : peers_) sum += peer == nullptr ? 0 : peer->messages_sent();
  return sum;
}

uint64_t Peers::server_losses() const noexcept {
  uint64_t sum = losses_before_;
  for (const Connection::Owned& peer : peers_) sum += peer == nullptr ? 0 : peer->server_losses();
  return sum;
}

}  // namespace refract::client
