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

}  // namespace

Peers::Peers(runtime::Shard& shard, const Settings& settings)
    : shard_(shard), settings_(settings), client_id_(std::max<uint64_t>(secure_random_u64(), 1)) {
  nodes_.push_back(std::make_unique<NodeConnections>(parts(), settings.target));
  sole_ = nodes_.front().get();
  // Another thread knows already.
  if (auto known = settings.known_nodes->first()) spread_over(*std::move(known));
  update_short_ways();
}

Peers::~Peers() {
  ways_->reader = nullptr;
  ways_->connection = nullptr;
  ways_->answering = nullptr;
  ways_->shards.clear();
  ways_->by_slot.clear();
  ways_->way_of_slot.clear();
  if (ways_->ticket != nullptr) ways_->ticket->reader = nullptr;
}

void Peers::show_short_ways(ShortWays& ways) {
  ways_ = &ways;
  update_short_ways();
}

void Peers::update_short_ways() {
  Connection* const connection = sole_ != nullptr && sole_->count() == 1 ? sole_->at(0) : nullptr;
  if (connection != nullptr && connection->reader() != nullptr) {
    ways_->reader = connection->reader();
    ways_->connection = connection;
    ways_->server_state = connection->server_state_word();
    ways_->hash_seed = ways_->reader->hash_seed();
  } else {
    ways_->reader = nullptr;
    ways_->connection = nullptr;
    ways_->server_state = &kServing;
    ways_->hash_seed = told().hash_seed();
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
  if (sole_ == nullptr || sole_->count() > 1) update_many_ways();
}

void Peers::update_many_ways() {
  std::vector<uint16_t> begins;  // Of each node's shards.
  begins.reserve(nodes_.size());
  const bool is_by_slot = spread_ || told().routing().is_by_slot();
  std::vector<ShardReader>& ways = is_by_slot ? ways_->by_slot : ways_->shards;
  for (const auto& node : nodes_) {
    begins.push_back(static_cast<uint16_t>(ways.size()));
    for (uint32_t shard = 0; shard < node->count(); ++shard) {
      Connection::Reader* const reader = node->reader_at(shard);
      ways.push_back({.reader = reader, .connection = reader == nullptr ? nullptr : node->at(shard)});
    }
  }
  if (!spread_) return;
  std::vector<uint32_t> shards;
  shards.reserve(nodes_.size());
  for (const auto& node : nodes_) shards.push_back(node->count());
  if (shards == shards_of_ways_ && !ways_->way_of_slot.empty()) return;
  shards_of_ways_ = std::move(shards);
  ways_->way_of_slot.resize(cluster::kSlots);
  for (uint32_t slot = 0; slot < cluster::kSlots; ++slot) {
    const uint32_t node = spread_->routing.home_of(static_cast<uint16_t>(slot));
    const uint32_t shard = kv::KeyRouting::shard_of_slot(slot, nodes_[node]->count());
    ways_->way_of_slot[slot] = static_cast<uint16_t>(begins[node] + shard);
  }
}

void Peers::link_changed(Link& /*link*/) noexcept {
  for (const auto& node : nodes_) node->end_strangers();
  update_short_ways();
}

void Peers::look_around() noexcept {
  for (const auto& node : nodes_) node->look_around();
}

uint32_t Peers::count() const noexcept {
  uint32_t sum = 0;
  for (const auto& node : nodes_) sum += node->count();
  return sum;
}

std::optional<uint32_t> Peers::shard_at(uint32_t index) const noexcept {
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    if (index < nodes_[node]->count()) return ShardPlace{.node = node, .shard = index}.number();
    index -= nodes_[node]->count();
  }
  return std::nullopt;
}

Task<> Peers::find_out() {
  if (is_known() || guard_.is_child()) co_return;
  Patience patience;
  // Whether it succeeded is what the operation finds out next.
  (void)co_await await_server({.key = {}, .shard = first_shard()}, patience);
}

Task<> Peers::know_nodes() {
  if (!are_spread()) co_await find_out();
}

Task<> Peers::find_node_of(kv::HashedKey key, uint64_t deadline_ns) {
  if (guard_.is_child() || nodes_[node_of({.key = key})]->is_known()) co_return;
  const uint64_t timeout_ns = shard_.refresh_now() + settings_.options.timeout_ns;
  Patience patience{.deadline_ns = std::min(deadline_ns, timeout_ns)};
  (void)co_await await_server({.key = key}, patience);
}

Task<bool> Peers::find_all() {
  co_await know_nodes();
  const uint64_t deadline_ns = shard_.refresh_now() + settings_.options.timeout_ns;
  for (uint32_t node = 0; node < nodes_.size() && !guard_.is_child(); ++node) {
    if (nodes_[node]->is_known()) continue;
    Patience patience{.deadline_ns = deadline_ns};
    const bool is_there =
        co_await await_server({.key = {}, .shard = ShardPlace{.node = node}.number()}, patience);
    if (!is_there && !nodes_[node]->is_known()) co_return false;
  }
  co_return true;
}

Task<bool> Peers::establish(uint64_t deadline_ns) {
  const bool reached = co_await establish_node(told_, deadline_ns);
  co_return reached;
}

// The first shard leads: it says how many others there are.
Task<bool> Peers::establish_node(uint32_t node, uint64_t deadline_ns) {
  nodes_[node]->is_connecting = true;
  Reported<Discovery> found;
  if (spread_) {
    found = co_await find_member(node, deadline_ns);
  } else {
    ended_.bury();
    found = co_await find_first(deadline_ns);
    // Which of several it is, is known now.
    node = told_;
  }
  nodes_[node]->is_connecting = false;
  if (!found) {
    trouble_ = std::move(found).error();
    co_return false;
  }
  NodeConnections& reached = *nodes_[node];
  reached.take_first(std::move(*found));
  ++connections_;
  // All at once; an operation that waits for one of them longer than this says so.
  reached.begin_others();
  update_short_ways();
  for (uint32_t shard = 1; shard < nodes_[node]->count(); ++shard) {
    Connection* const other = nodes_[node]->at(shard);
    if (other == nullptr) continue;
    const Use use(*other);
    co_await await_first_state(shard_, *other, deadline_ns);
  }
  co_return true;
}

Task<bool> Peers::establish_at(uint32_t number, uint64_t deadline_ns) {
  const ShardPlace place = ShardPlace::from(number);
  // Where the node itself is another one by now, its first shard knows it.
  if (place.shard == 0 || is_gone(nodes_[place.node]->at(0))) {
    const bool reached = co_await establish_node(place.node, deadline_ns);
    Connection* const connection = at({.key = {}, .shard = number});
    co_return reached&& connection != nullptr&& has_come_up(*connection);
  }
  NodeConnections& node = *nodes_[place.node];
  if (!node.is_known() || place.shard >= node.count()) co_return false;
  if (!node.begin_other(place.shard)) {
    trouble_ = node.trouble();
    co_return false;
  }
  update_short_ways();
  Connection& fresh = *node.at(place.shard);
  const Use use(fresh);
  co_await await_first_state(shard_, fresh, deadline_ns);
  if (!has_come_up(fresh)) {
    trouble_ = fresh.trouble();
    co_return false;
  }
  co_return true;
}

// Until its connection is up, or will not come up.
Task<> Peers::await_state(KeyOwner place, uint64_t deadline_ns) {
  for (;;) {
    Connection* const connection = at(place);
    if (connection == nullptr) co_return;
    const bool may_come =
        connection->state() == Connection::State::kConnecting ||
        (connection->state() == Connection::State::kNoServer && !connection->has_server_given_up());
    if (!may_come) co_return;
    // Awaiting changes it, which the check does not see.
    Pending change = shard_.ops().begin(deadline_ns);  // NOLINT(misc-const-correctness)
    connection->wake_at_change(change.token());
    // One that is put aside meanwhile is there until it has said so.
    const Use use(*connection);
    const runtime::OpResult woken = co_await change;
    if (woken.code != Code::kOk) co_return;
  }
}

Task<> Peers::look_elsewhere(KeyOwner place, uint64_t deadline_ns) {
  const auto is_away = [&] {
    const Connection* const connection = spread_ ? at(place) : nullptr;
    return connection != nullptr && connection->state() == Connection::State::kNoServer &&
           !connection->tells_by_words();
  };
  if (!is_away()) co_return;
  co_await await_state(place, share_of(shard_.refresh_now(), deadline_ns, 2));
  if (!is_away()) co_return;
  const uint32_t node = node_of(place);
  const bool is_elsewhere = co_await ask_for_address(node, deadline_ns);
  if (!is_elsewhere || !is_away()) co_return;
  nodes_[node]->leave();
  update_short_ways();
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
    co_await look_elsewhere(place, patience.deadline_ns);
    co_await await_state(place, patience.deadline_ns);
    if (!is_gone(at(place)) || shard_.now_ns() >= patience.deadline_ns) break;
    const bool were_spread = are_spread();
    const uint32_t number = number_of(place);
    if (nodes_[ShardPlace::from(number).node]->is_connecting) {
      // Another operation is at it, with a deadline of its own.
      while (nodes_[node_of(place)]->is_connecting && shard_.now_ns() < patience.deadline_ns) {
        co_await shard_.sleep_for(kPause_ns);
      }
      if (were_spread != are_spread() && place.key.empty()) co_return true;
      if (is_gone(at(place)) && were_spread == are_spread()) break;
      continue;
    }
    if (patience.losses > 0) co_return false;
    const bool reached = co_await establish_at(number, patience.deadline_ns);
    // What was learnt is that the place may be at another node. Of no key, that was all.
    if (were_spread != are_spread() && place.key.empty()) co_return reached;
    if (were_spread != are_spread()) continue;
    ++patience.losses;
    co_return reached;
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

uint64_t Peers::messages_sent() const noexcept {
  uint64_t sum = ended_.messages_sent();
  for (const auto& node : nodes_) sum += node->messages_sent();
  return sum;
}

uint64_t Peers::server_losses() const noexcept {
  uint64_t sum = ended_.server_losses();
  for (const auto& node : nodes_) sum += node->server_losses();
  return sum;
}

}  // namespace refract::client
