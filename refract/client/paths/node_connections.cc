// SPDX-License-Identifier: Apache-2.0
#include "refract/client/paths/node_connections.h"

#include <algorithm>

namespace refract::client {

void EndedConnections::add(Connection::Owned connection) {
  messages_ += connection->messages_sent();
  losses_ += connection->server_losses();
  connection->watch(nullptr);
  connection->reach(nullptr);
  connection->close();
  connections_.push_back(std::move(connection));
}

void EndedConnections::bury() noexcept {
  std::erase_if(connections_, [](const auto& connection) { return connection->operations == 0; });
}

NodeConnections::NodeConnections(const Parts& parts, Target target)
    : parts_(parts), target_(std::move(target)), connections_(1) {}

NodeConnections::~NodeConnections() = default;

void NodeConnections::take_first(Discovery discovery) {
  const NodeFacts facts = discovery.connection->facts();
  // Those to another node, or to shards that there are no more, are of no use.
  for (uint32_t shard = 0; shard < count(); ++shard) {
    Connection::Owned& connection = connections_[shard];
    const bool is_other = connection != nullptr && connection->facts().identity != facts.identity;
    if (connection != nullptr && (shard == 0 || is_other || shard >= facts.shard_count)) {
      put_aside(std::move(connection));
    }
  }
  // Who is connecting to one of the others looks whether it is still there.
  connections_.resize(std::max<uint32_t>(facts.shard_count, 1));
  if (facts.identity != identity_ || count() != routing_.shards) ++layout_;
  identity_ = facts.identity;
  routing_ = {.shards = count(), .copies = facts.copies};
  hash_seed_ = facts.hash_seed;
  row_ = &discovery.connection->row();
  target_ = std::move(discovery.target);
  address_ = std::move(discovery.address);
  chosen_ = std::move(discovery.chosen);
  others_ = std::move(discovery.others);
  connections_[0] = std::move(discovery.connection);
  connections_[0]->watch(&parts_.watcher);
  connections_[0]->reach(this);
}

bool NodeConnections::begin_other(uint32_t shard) {
  auto begun = Connection::begin(parts_.shard, *row_, parts_.settings.request_to(address_of(shard)),
                                 parts_.settings.options.paths);
  if (!begun) {
    trouble_ = std::move(begun).error();
    return false;
  }
  if (connections_[shard] != nullptr) put_aside(std::move(connections_[shard]));
  connections_[shard] = std::move(*begun);
  connections_[shard]->watch(&parts_.watcher);
  connections_[shard]->reach(this);
  return true;
}

void NodeConnections::begin_others() {
  for (uint32_t shard = 1; shard < count(); ++shard) {
    if (is_gone(at(shard))) (void)begin_other(shard);
  }
}

// One with another seed belongs to another node, and is about to be put aside.
Connection::Reader* NodeConnections::reader_at(uint32_t shard) const noexcept {
  Connection* const connection = at(shard);
  Connection::Reader* const reader = connection != nullptr ? connection->reader() : nullptr;
  return reader != nullptr && reader->hash_seed() == hash_seed_ ? reader : nullptr;
}

void NodeConnections::leave() {
  for (Connection::Owned& connection : connections_) {
    if (connection != nullptr) put_aside(std::move(connection));
  }
}

void NodeConnections::put_aside(Connection::Owned connection) {
  parts_.ended.add(std::move(connection));
}

// In the middle of a poll of one of them: they end in the next.
void NodeConnections::end_strangers() noexcept {
  for (uint32_t shard = 1; shard < count(); ++shard) {
    Connection* const connection = at(shard);
    if (connection == nullptr || connection->state() != Connection::State::kUp) continue;
    if (connection->facts().identity != identity_) connection->close();
  }
}

void NodeConnections::look_around() noexcept {
  for (const Connection::Owned& connection : connections_) {
    if (connection != nullptr) connection->look_around();
  }
}

void NodeConnections::fill(Route& route) const {
  route.address = address_.empty() ? target_.text() : address_;
  route.chosen = chosen_;
  route.others = others_;
  route.shards = count();
  if (row_ != nullptr) route.transport = row_->name;
  // The first shard has the last word.
  for (uint32_t shard = count(); shard-- > 0;) {
    if (at(shard) != nullptr) at(shard)->fill(route);
  }
  if (at(0) == nullptr) route.reason = route.server = "gone";
}

uint64_t NodeConnections::messages_sent() const noexcept {
  uint64_t sum = 0;
  for (const Connection::Owned& one : connections_) sum += one == nullptr ? 0 : one->messages_sent();
  return sum;
}

uint64_t NodeConnections::server_losses() const noexcept {
  uint64_t sum = 0;
  for (const Connection::Owned& one : connections_) sum += one == nullptr ? 0 : one->server_losses();
  return sum;
}

}  // namespace refract::client
