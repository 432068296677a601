// SPDX-License-Identifier: Apache-2.0
// A client's connections to all shards of a node, on one runtime shard: which one owns a key, what becomes of
// an operation when the server or the node behind it goes, and how the next one is found.
//
// Shards come and go one by one: an operation waits for its own shard alone. The node's first shard is asked
// how many there are; where another node answers at the address, everything is learnt again.
//
// Threads: used only by its runtime shard. Destroyed in a turn after that in which the last operation ended.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "refract/client/link/forks.h"
#include "refract/client/link/settings.h"
#include "refract/client/paths/connection.h"
#include "refract/client/paths/discovery.h"
#include "refract/client/paths/short_ways.h"
#include "refract/kv/layout/hashed_key.h"
#include "refract/kv/layout/routing.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::client {

// Whose operation it is: of the shard that owns the key or, where there is none, of this one.
struct KeyOwner {
  kv::HashedKey key;
  uint32_t shard = 0;
};

// How long an operation continues.
struct Patience {
  uint64_t deadline_ns = 0;  // 0: no attempt has failed yet.
  // When the first attempt began: the timeout is that of all together. 0: there was none. Of operations whose
  // every message has a timeout of its own: likewise 0, and is_of_many.
  uint64_t begun_ns = 0;
  bool is_of_many = false;
  int losses = 0;  // Of the whole node.
  int waits = 0;
  int growth_waits = 0;
};

// Whether an attempt surely did nothing.
struct Unsent {
  bool operator()(const Connection& /*connection*/, Code code) const noexcept {
    return code == Code::kUnavailable;
  }
};

class Peers final : public Link::Watcher, public kv::MappedSpaces {
 public:
  // Both outlive the peers. Nothing is connected yet.
  Peers(runtime::Shard& shard, const Settings& settings);
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;
  ~Peers() override;

  // From now on `ways` say what a read may use at once.
  void show_short_ways(ShortWays& ways);

  // How many shards the node has; 1 until that is known.
  [[nodiscard]] uint32_t count() const noexcept { return static_cast<uint32_t>(peers_.size()); }
  // What a read may use at once, as it is now.
  [[nodiscard]] const ShortWays& short_ways() const noexcept { return *ways_; }
  // May be count(), where the node has fewer shards than it had.
  [[nodiscard]] uint32_t index_of(const KeyOwner& place) const noexcept {
    if (place.key.empty()) return std::min(place.shard, count());
    if (routing_.shards == 1) return 0;
    return routing_.shard_of(place.key.bytes(), place.key.hash(hash_seed_));
  }
  // Null: never reached.
  [[nodiscard]] Connection* at(uint32_t index) const noexcept { return peers_[index].get(); }
  [[nodiscard]] Connection* at(const KeyOwner& place) const noexcept {
    const uint32_t index = index_of(place);
    return index < count() ? at(index) : nullptr;
  }
  // The connection whose server can be asked now. Null: go by read() or ask(), which wait for one.
  [[nodiscard]] Connection* answering_at(const KeyOwner& place) const noexcept {
    Connection* const connection = is_child() ? nullptr : at(place);
    const bool answers = connection != nullptr && connection->state() == Connection::State::kUp;
    return answers ? connection : nullptr;
  }
  // Has every connection look whether its node is there; the next turn ends those whose is not.
  void look_around() noexcept;

  // Reaches the node, and all its shards at once. False: trouble() says why not.
  [[nodiscard]] runtime::Task<bool> establish(uint64_t deadline_ns);
  // Whether a node was ever reached, so that its shards are known.
  [[nodiscard]] bool is_known() const noexcept { return row_ != nullptr; }
  // How the node that was found is reached. REQUIRES: is_known().
  [[nodiscard]] const TransportRow& row() const noexcept { return *row_; }
  // Of one of its shards: that which has its objects has the number count().
  [[nodiscard]] std::string address_of(uint32_t shard) const { return row_->shard_address(address_, shard); }
  // For operations on all shards: tries to reach a node once, if it is not known.
  [[nodiscard]] runtime::Task<> find_out();

  // Reads by `direct(Connection&, key) -> Code`, and where that cannot tell, by `ask(Connection&, key,
  // deadline_ns) -> Task<Code>`, where kUnavailable says that there was no answer. The key is the place's.
  template <typename Direct, typename Ask>
  [[nodiscard]] runtime::Task<Code> read(KeyOwner place, Direct direct, Ask ask, Patience patience = {}) {
    for (;;) {
      if (guard_.is_child()) co_return Code::kForked;
      Connection* connection = at(place);
      if (connection != nullptr && connection->reader() != nullptr) {
        const Code code = direct(*connection, place.key);
        if (code != Code::kInvalidated && code != Code::kCorrupt) co_return code;
        if (code == Code::kCorrupt) {
          const bool again = co_await await_growth(*connection, patience);
          if (again) continue;
          co_return code;
        }
      }
      if (connection != nullptr && connection->state() == Connection::State::kUp) {
        const Use use(*connection);
        begin_attempt(patience);
        const Code code = co_await ask(*connection, place.key, patience.deadline_ns);
        if (code != Code::kUnavailable) {
          note(*connection, code);
          co_return code;
        }
      }
      const bool again = co_await await_server(place, patience);
      if (!again) co_return Code::kUnavailable;
    }
  }

  // `ask(Connection&, key, deadline_ns) -> Task<Result<T>>`, repeated while `may_go_again(connection, code)`,
  // which is asked right after it: by default after kUnavailable, which says that nothing was sent. Without a
  // server in time kUnavailable, which says so of the last attempt only.
  template <typename T, typename Ask, typename MayGoAgain = Unsent>
  [[nodiscard]] runtime::Task<Result<T>> ask(KeyOwner place, Ask ask, MayGoAgain may_go_again = {},
                                             Patience patience = {}) {
    for (;;) {
      if (guard_.is_child()) co_return fail(Code::kForked);
      Connection* connection = at(place);
      if (connection != nullptr && connection->state() == Connection::State::kUp) {
        const Use use(*connection);
        begin_attempt(patience);
        Result<T> result = co_await ask(*connection, place.key, patience.deadline_ns);
        if (!may_go_again(*connection, result.code())) {
          note(*connection, result.code());
          co_return result;
        }
      }
      const bool again = co_await await_server(place, patience);
      if (!again) co_return fail(Code::kUnavailable);
    }
  }

  // Waits for the next server, or connects to the next node. False: none came in time; trouble() says more.
  [[nodiscard]] runtime::Task<bool> await_server(KeyOwner place, Patience& patience);
  // False: what there is to be mapped is mapped, for some time already.
  [[nodiscard]] runtime::Task<bool> await_growth(Connection& connection, Patience& patience);

  [[nodiscard]] const Report& trouble() const noexcept { return trouble_; }
  // Remembers why, where a person may want to know it.
  void note(const Connection& connection, Code code);
  void fill(Route& route) const;

  [[nodiscard]] RequestId new_request() noexcept { return {client_id_, ++last_sequence_}; }
  [[nodiscard]] bool is_child() const noexcept { return guard_.is_child(); }
  [[nodiscard]] runtime::Shard& shard() const noexcept { return shard_; }
  [[nodiscard]] const Settings& settings() const noexcept { return settings_; }

  [[nodiscard]] uint64_t messages_sent() const noexcept;
  [[nodiscard]] uint64_t server_losses() const noexcept;
  [[nodiscard]] uint64_t connections() const noexcept { return connections_; }

  // An operation inside a connection, which must not go before it.
  class Use {
   public:
    explicit Use(Connection& connection) noexcept : connection_(connection) { ++connection_.operations; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { --connection_.operations; }

   private:
    Connection& connection_;
  };

  void link_changed(Link& link) noexcept override;
  [[nodiscard]] const std::byte* space_of(uint32_t shard) const noexcept override {
    return shard < count() && at(shard) != nullptr ? at(shard)->space() : nullptr;
  }

 private:
  void begin_attempt(Patience& patience) const noexcept {
    if (patience.begun_ns == 0 && !patience.is_of_many) patience.begun_ns = shard_.now_ns();
  }
  [[nodiscard]] runtime::Task<bool> establish_at(uint32_t index, uint64_t deadline_ns);
  [[nodiscard]] bool begin_other(uint32_t index);
  void take_first(Discovery discovery);
  void put_aside(Connection::Owned connection);
  void bury() noexcept;
  void update_short_ways();

  runtime::Shard& shard_;
  const Settings& settings_;
  ForkGuard guard_;
  std::vector<Connection::Owned> peers_;  // Of each shard; null: never reached.
  bool is_first_connecting_ = false;
  std::vector<Connection::Owned> ended_;  // Some operation may still be on its way out of them.
  ShortWays own_ways_;
  ShortWays* ways_ = &own_ways_;
  uint64_t hash_seed_ = 0;
  kv::KeyRouting routing_;  // Of count() shards.
  // Of the node that was found.
  const TransportRow* row_ = nullptr;
  std::string address_;
  std::string chosen_;
  std::vector<OtherTransport> others_;
  Report trouble_{Code::kOk, "", ""};
  uint64_t client_id_;
  uint64_t last_sequence_ = 0;
  uint64_t connections_ = 0;
  uint64_t messages_before_ = 0;  // Of earlier connections; likewise the next.
  uint64_t losses_before_ = 0;
};

}  // namespace refract::client
