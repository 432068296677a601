// SPDX-License-Identifier: Apache-2.0
// A client's connections to all shards of one node, on one runtime shard. Nothing here waits: Peers does.
//
// Threads: used only by its runtime shard.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "refract/client/link/settings.h"
#include "refract/client/paths/connection.h"
#include "refract/client/paths/discovery.h"
#include "refract/kv/layout/hashed_key.h"
#include "refract/kv/layout/routing.h"
#include "refract/runtime/shard.h"

namespace refract::client {

// Connections that have ended: some operation may still be on its way out of them.
class EndedConnections {
 public:
  void add(Connection::Owned connection);
  // REQUIRES: not in the middle of a poll of one of them.
  void bury() noexcept;

  [[nodiscard]] uint64_t messages_sent() const noexcept { return messages_; }
  [[nodiscard]] uint64_t server_losses() const noexcept { return losses_; }

 private:
  std::vector<Connection::Owned> connections_;
  uint64_t messages_ = 0;  // Of those before, too; likewise the next.
  uint64_t losses_ = 0;
};

class NodeConnections final : public kv::MappedSpaces {
 public:
  // What the connections share with those to other nodes. All outlive them.
  struct Parts {
    runtime::Shard& shard;
    const Settings& settings;
    Link::Watcher& watcher;
    EndedConnections& ended;
  };
  // Nothing is connected yet.
  NodeConnections(const Parts& parts, Target target);
  NodeConnections(const NodeConnections&) = delete;
  NodeConnections& operator=(const NodeConnections&) = delete;
  ~NodeConnections();

  // Raised where take_first() finds other shards, or another node, than before.
  [[nodiscard]] uint64_t layout() const noexcept { return layout_; }
  // How many shards the node has; 1 until that is known.
  [[nodiscard]] uint32_t count() const noexcept { return static_cast<uint32_t>(connections_.size()); }
  // Null: never reached, or the node has no such shard.
  [[nodiscard]] Connection* at(uint32_t shard) const noexcept {
    return shard < count() ? connections_[shard].get() : nullptr;
  }
  [[nodiscard]] uint32_t shard_of(const kv::HashedKey& key) const noexcept {
    return routing_.shards == 1 ? 0 : routing_.shard_of(key.bytes(), key.hash(hash_seed_));
  }
  // Whether the node was ever reached, so that its shards are known.
  [[nodiscard]] bool is_known() const noexcept { return row_ != nullptr; }
  // REQUIRES: is_known().
  [[nodiscard]] const TransportRow& row() const noexcept { return *row_; }
  [[nodiscard]] const kv::KeyRouting& routing() const noexcept { return routing_; }
  [[nodiscard]] uint64_t hash_seed() const noexcept { return hash_seed_; }
  // Of one of its shards: that which has its objects has the number count().
  [[nodiscard]] std::string address_of(uint32_t shard) const { return row_->shard_address(address_, shard); }
  // Where the node is looked for.
  [[nodiscard]] const Target& target() const noexcept { return target_; }
  void look_for_at(Target target) { target_ = std::move(target); }

  // The first shard leads: it says how many others there are. What belongs to another node is put aside.
  void take_first(Discovery discovery);
  // Begins to connect to another shard. False: trouble() says why not. REQUIRES: is_known().
  [[nodiscard]] bool begin_other(uint32_t shard);
  // All of them, which can be seen to be gone.
  void begin_others();
  // The reader of a shard of the node that was found. Null: there is none.
  [[nodiscard]] Connection::Reader* reader_at(uint32_t shard) const noexcept;

  // Puts all aside: there will be no operation more.
  void leave();

  // Ends connections to shards of another node than the first shard's: one that came to its address.
  void end_strangers() noexcept;
  void look_around() noexcept;
  [[nodiscard]] const Report& trouble() const noexcept { return trouble_; }
  void fill(Route& route) const;
  [[nodiscard]] uint64_t messages_sent() const noexcept;
  [[nodiscard]] uint64_t server_losses() const noexcept;

  [[nodiscard]] const std::byte* space_of(uint32_t shard) const noexcept override {
    return at(shard) != nullptr ? at(shard)->space() : nullptr;
  }

  // Some operation is reaching the first shard.
  bool is_connecting = false;

 private:
  void put_aside(Connection::Owned connection);

  const Parts parts_;
  Target target_;
  std::vector<Connection::Owned> connections_;  // Of each shard; null: never reached.
  kv::KeyRouting routing_;                      // Of count() shards.
  uint64_t hash_seed_ = 0;
  std::array<uint64_t, 2> identity_{};
  uint64_t layout_ = 0;
  // Of the node that was found.
  const TransportRow* row_ = nullptr;
  std::string address_;
  std::string chosen_;
  std::vector<OtherTransport> others_;
  Report trouble_{Code::kOk, "", ""};
};

// Never reached, or over.
[[nodiscard]] inline bool is_gone(const Connection* connection) noexcept {
  return connection == nullptr || connection->state() == Connection::State::kEnded;
}

}  // namespace refract::client
