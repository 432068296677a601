// SPDX-License-Identifier: Apache-2.0
// What one thread has of a Client: a runtime shard of its own and the connections on it. Threads share
// nothing on their way to a node, so none waits for another.
//
// Threads: used by one thread, whichever it is; tally() by any.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "refract/base/clock.h"
#include "refract/base/hash.h"
#include "refract/client/async_calls.h"
#include "refract/client/link/forks.h"
#include "refract/client/link/settings.h"
#include "refract/client/objects/object_peer.h"
#include "refract/client/paths/peers.h"
#include "refract/client/paths/read_ticket.h"
#include "refract/client/use_notes.h"
#include "refract/runtime/block_or.h"
#include "refract/runtime/shard.h"

namespace refract::client {

// On cache lines of its own: other threads count beside it.
class alignas(64) ThreadState {
 public:
  // `settings` outlive it.
  explicit ThreadState(const Settings& settings) : shard_(system_clock()), async_(shard_, settings) {
    shard_.ask_before_sleeping(settings.options.may_wait_ns);
    ways_.ticket = &*ticket_;
    peers().show_short_ways(ways_);
  }
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;
  ~ThreadState() = default;

  // The reader of a node's only shard, for one read that needs nothing looked after; counts it. Null: go
  // through reading_at().
  [[nodiscard, gnu::always_inline]] Connection::Reader* reader_at_once(
      std::span<const std::byte> key) noexcept {
    const uint64_t left = ticket_->reads();
    if (!ReadTicket::is_good(left) || is_node_stopping()) [[unlikely]]
      return reader_when_due(key);
    Connection::Reader* const reader = ways_.reader;
    if (reader != nullptr) [[likely]]
      ticket_->take(left);
    return reader;
  }
  // Whose reader that is. REQUIRES: reader_at_once() gave one just now.
  [[nodiscard]] Connection& sole_connection() const noexcept { return *ways_.connection; }
  // Whether the node has several shards, each with a reader of its own, and keys are routed by their hash.
  [[nodiscard]] bool has_shards() const noexcept { return !ways_.shards.empty(); }
  // The same, and keys are routed by their slot.
  [[nodiscard]] bool has_shards_of_slots() const noexcept { return !ways_.by_slot.empty(); }
  // The seed of all shards' hashes, and a key's hash with it.
  [[nodiscard]] uint64_t hash_seed() const noexcept { return ways_.hash_seed; }
  [[nodiscard, gnu::flatten]] uint64_t hash(std::span<const std::byte> key) const noexcept {
    return hash_key(key, ways_.hash_seed);
  }
  // As reader_at_once(), of the shard that owns keys of this hash. Null inside: go through reading_at().
  // REQUIRES: has_shards().
  [[nodiscard, gnu::always_inline]] ShardReader shard_at_once(uint64_t hash) noexcept {
    return take_way(ways_.at(hash));
  }
  // As shard_at_once(), of the shard that owns this key. REQUIRES: has_shards_of_slots().
  [[nodiscard, gnu::always_inline]] ShardReader slot_at_once(std::span<const std::byte> key) noexcept {
    return take_way(ways_.at_slot_of(key));
  }
  // The one that gave a reader just now, to a key of this hash. REQUIRES: one did.
  [[nodiscard]] ShardReader way_of(uint64_t hash) const noexcept {
    if (has_shards()) return ways_.at(hash);
    return {.reader = ways_.reader, .connection = ways_.connection};
  }
  // The reader of the key's shard, for hints; counts nothing. Null: there is none.
  [[nodiscard]] Connection::Reader* reader_for(const Connection::Key& key) noexcept {
    if (guard_.is_child()) [[unlikely]]
      return nullptr;
    if (ways_.reader != nullptr) [[likely]]
      return ways_.reader;
    if (has_shards()) return ways_.at(key.hash(ways_.hash_seed)).reader;
    return has_shards_of_slots() ? ways_.at_slot_of(key.bytes()).reader : nullptr;
  }
  // What reader_at_once() counted is read by other means, and counted there.
  void count_again() noexcept { ticket_.grant(ticket_.made() - 1, ticket_->reads() + 1); }
  // What reads of a node's only shard look at. Lives as long as this.
  [[nodiscard]] ReadTicket& ticket() noexcept { return *ticket_; }

  // The connection that reads of this place may use directly; counts one. Looks after the node every now and
  // then. Null: there is none.
  [[nodiscard]] Connection* reading_at(const KeyOwner& place) noexcept;
  // The same for many reads on any shard.
  void count_reads(uint64_t reads) noexcept;
  // For what was copied under a pin: pins count only while there is a keeper that knows them.
  [[nodiscard]] bool is_node_still_there(const Connection& connection) noexcept;

  // The connection to ask now; null: await one.
  [[nodiscard]] Connection* asking_at(const KeyOwner& place) noexcept;

  // Drives the task to its end.
  template <typename T>
  [[nodiscard]] T wait_for(runtime::Task<T> task) {
    T result = block_on(shard_, std::move(task));
    publish();
    return result;
  }
  void wait_for(runtime::Task<> task) {
    block_on(shard_, std::move(task));
    publish();
  }
  // The same of a task that ClientOptions::may_wait_ns may end. Then the task is dropped, and this is
  // `given_up`.
  template <typename T>
  [[nodiscard]] T wait_or(Code given_up, runtime::Task<T> task) {
    T result = runtime::block_or(given_up, shard_, std::move(task));
    publish();
    return result;
  }
  // False: not reached, or dropped.
  [[nodiscard]] bool has_reached(runtime::Task<bool> task) {
    return runtime::has_run(shard_, task) && task.take();
  }
  // False: it was dropped.
  [[nodiscard]] bool has_waited_for(runtime::Task<> task) {
    const bool is_done = runtime::has_run(shard_, task);
    publish();
    return is_done;
  }
  void count_reread() noexcept { rereads_.add(1); }
  // Makes what the connections count visible to other threads.
  void publish() noexcept {
    messages_.set(peers().messages_sent() + (objects_ == nullptr ? 0 : objects_->messages_sent()));
    losses_.set(peers().server_losses());
    connections_.set(peers().connections());
  }

  [[nodiscard]] bool is_child() const noexcept { return guard_.is_child(); }
  [[nodiscard]] runtime::Shard& shard() noexcept { return shard_; }
  [[nodiscard]] AsyncCalls& async() noexcept { return async_; }
  [[nodiscard]] Peers& peers() noexcept { return async_.peers(); }
  // Made when it is first asked for.
  [[nodiscard]] ObjectPeer& objects() {
    if (objects_ == nullptr) [[unlikely]]
      objects_ = std::make_unique<ObjectPeer>(peers());
    return *objects_;
  }
  [[nodiscard]] const Report& trouble() const noexcept { return async_.trouble(); }
  [[nodiscard]] ClientCounters tally() const noexcept;

 private:
  // A killed keeper sends no word; a look costs half a microsecond.
  static constexpr uint64_t kReadsPerLook = 256;
  // After so long a silence a connection without a page to look at is polled before it is used.
  static constexpr uint64_t kStale_ns = kMillisecond_ns;

  [[nodiscard, gnu::always_inline]] ShardReader take_way(ShardReader way) noexcept {
    const uint64_t left = ticket_->reads();
    if (!ReadTicket::is_good(left) || way.reader == nullptr || way.connection->is_node_stopping())
        [[unlikely]]
      return {};
    ticket_->take(left);
    return way;
  }
  [[nodiscard]] bool is_node_stopping() const noexcept {
    return observe_u64(ways_.server_state) == static_cast<uint64_t>(ServerState::kStopping);
  }
  // There is something to look after before this read. Null: go through reading_at().
  [[nodiscard, gnu::noinline, gnu::cold]] Connection::Reader* reader_when_due(
      std::span<const std::byte> key) noexcept;
  void look_at_nodes() noexcept;
  // `made` reads have been made; the ticket is good until the next look or note.
  void renew(uint64_t made) noexcept {
    const uint64_t due = std::min(look_due_, notes_.due());
    ticket_.grant(made, due > made ? due - made : 0);
  }

  ForkGuard guard_;
  ShortWays ways_;
  UseNotes notes_;
  uint64_t look_due_ = kReadsPerLook;  // Reads after which the client looks whether the node is there.
  OwnTicket ticket_;                   // Until the lower of that and when the notes are due.
  Counter rereads_;
  Counter messages_;
  Counter losses_;
  Counter connections_;
  runtime::Shard shard_;
  AsyncCalls async_;
  std::unique_ptr<ObjectPeer> objects_;
};

}  // namespace refract::client
