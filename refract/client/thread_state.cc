// SPDX-License-Identifier: Apache-2.0
#include "refract/client/thread_state.h"

namespace refract::client {

void ThreadState::look_at_nodes() noexcept {
  peers().look_around();
  (void)shard_.poll_once();
}

Connection::Reader* ThreadState::reader_when_due(std::span<const std::byte> key) noexcept {
  if (guard_.is_child()) return nullptr;
  const uint64_t reads = ticket_.made() + 1;
  if (reads >= look_due_ || is_node_stopping() || ways_.reader == nullptr) return nullptr;
  if (reads >= notes_.due()) notes_.note(*ways_.connection, key, reads);
  renew(reads);
  return ways_.reader;
}

void ThreadState::count_reads(uint64_t reads) noexcept {
  const uint64_t now = ticket_.made() + reads;
  if (now < look_due_ && !is_node_stopping()) [[likely]]
    return renew(now);
  look_due_ = now + kReadsPerLook;
  renew(now);
  look_at_nodes();
}

Connection* ThreadState::reading_at(const KeyOwner& place) noexcept {
  Connection* connection = peers().at(place);
  if (connection == nullptr || connection->reader() == nullptr) return nullptr;
  count_reads(1);
  if (const uint64_t now = ticket_.made(); now >= notes_.due() && !place.key.empty()) [[unlikely]] {
    notes_.note(*connection, place.key, now);
    renew(now);
  }
  if (connection->is_node_stopping()) [[unlikely]]
    look_at_nodes();
  return connection->reader() != nullptr ? connection : nullptr;
}

bool ThreadState::is_node_still_there(const Connection& connection) noexcept {
  look_at_nodes();
  return connection.reader() != nullptr;
}

Connection* ThreadState::asking_at(const KeyOwner& place) noexcept {
  Connection* connection = peers().at(place);
  if (connection == nullptr) return nullptr;
  if (connection->state() == Connection::State::kUp && connection->is_server_as_known()) [[likely]] {
    if (connection->tells_by_words()) return connection;
    const uint64_t before = shard_.now_ns();
    if (shard_.refresh_now() - before < kStale_ns) return connection;
    connection->look_around();
  }
  (void)shard_.poll_once();
  return connection->state() == Connection::State::kUp ? connection : nullptr;
}

ClientCounters ThreadState::tally() const noexcept {
  return {.direct_reads = ticket_.made(),
          .messages_sent = messages_.value(),
          .rereads = rereads_.value(),
          .server_losses = losses_.value(),
          .connections = connections_.value()};
}

}  // namespace refract::client
