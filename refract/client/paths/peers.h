// SPDX-License-Identifier: Apache-2.0
// A client's connections to the node that it was told, or to all nodes among which a store's keys are shared
// out, on one runtime shard: which shard owns a key, what becomes of an operation when the server or the node
// behind it goes, and how the next one is found. See docs/design/069-many-nodes.md.
//
// Shards come and go one by one: an operation waits for its own shard alone. The node's first shard is asked
// how many there are; where another node answers at the address, everything is learnt again. Of several nodes
// each is reached when the first operation needs it, and asked whether it is the one that the list names.
//
// Threads: used only by its runtime shard. Destroyed in a turn after that in which the last operation ended.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "refract/client/link/forks.h"
#include "refract/client/link/settings.h"
#include "refract/client/paths/connection.h"
#include "refract/client/paths/discovery.h"
#include "refract/client/paths/key_owner.h"
#include "refract/client/paths/node_connections.h"
#include "refract/client/paths/patience.h"
#include "refract/client/paths/short_ways.h"
#include "refract/cluster/members_call.h"
#include "refract/cluster/routing.h"
#include "refract/kv/layout/hashed_key.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::client {

class Peers final : public Link::Watcher {
 public:
  // Both outlive the peers. Nothing is connected yet.
  Peers(runtime::Shard& shard, const Settings& settings);
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;
  ~Peers() override;

  // From now on `ways` say what a read may use at once.
  void show_short_ways(ShortWays& ways);
  // What a read may use at once, as it is now.
  [[nodiscard]] const ShortWays& short_ways() const noexcept { return *ways_; }

  // How many shards all nodes have; 1 each until that is known.
  [[nodiscard]] uint32_t count() const noexcept;
  // The number of the shard `index` places behind the first one, in the order of nodes and their shards.
  // Nothing: there is none.
  [[nodiscard]] std::optional<uint32_t> shard_at(uint32_t index) const noexcept;
  // The first shard of the node that the address led to.
  [[nodiscard]] uint32_t first_shard() const noexcept { return ShardPlace{.node = told_}.number(); }
  // May be of no shard, where the node has fewer than it had.
  [[nodiscard]] uint32_t number_of(const KeyOwner& place) const noexcept {
    if (place.key.empty()) return place.shard;
    const uint32_t node = node_of(place);
    return ShardPlace{.node = node, .shard = nodes_[node]->shard_of(place.key)}.number();
  }
  // Null: never reached.
  [[nodiscard]] Connection* at(const KeyOwner& place) const noexcept {
    if (sole_ != nullptr && !place.key.empty()) [[likely]]
      return sole_->at(sole_->shard_of(place.key));
    const ShardPlace found = ShardPlace::from(number_of(place));
    return found.node < nodes_.size() ? nodes_[found.node]->at(found.shard) : nullptr;
  }
  // The connection whose server can be asked now. Null: go by read() or ask(), which wait for one.
  [[nodiscard]] Connection* answering_at(const KeyOwner& place) const noexcept {
    Connection* const connection = is_child() ? nullptr : at(place);
    const bool answers = connection != nullptr && connection->state() == Connection::State::kUp;
    return answers ? connection : nullptr;
  }
  // Has every connection look whether its node is there; the next turn ends those whose is not.
  void look_around() noexcept;

  // Reaches the node that the address leads to, and all its shards at once. False: trouble() says why not.
  [[nodiscard]] runtime::Task<bool> establish(uint64_t deadline_ns);
  // Whether a node was ever reached, so that its shards are known, and whether there are others.
  [[nodiscard]] bool is_known() const noexcept { return told().is_known(); }
  // The node that the address led to.
  [[nodiscard]] const NodeConnections& told() const noexcept { return *nodes_[told_]; }
  // Whether the keys are shared out among several nodes.
  [[nodiscard]] bool are_spread() const noexcept { return spread_.has_value(); }
  // REQUIRES: are_spread(), and there is such a node.
  [[nodiscard]] const std::string& name_of(uint32_t node) const noexcept {
    return spread_->list.members[node].name;
  }
  // Another number: the node has other shards than before, or is another one.
  [[nodiscard]] uint64_t layout_of(uint32_t number) const noexcept {
    return nodes_[ShardPlace::from(number).node]->layout();
  }
  // Tries once to reach the node that the address leads to, if it was never reached.
  [[nodiscard]] runtime::Task<> find_out();
  // The same, unless the keys are known to be shared out.
  [[nodiscard]] runtime::Task<> know_nodes();
  // The same of the node that has this key, until then at most.
  [[nodiscard]] runtime::Task<> find_node_of(kv::HashedKey key, uint64_t deadline_ns = kForever_ns);
  // For those that must know each node's shards. False: one of them cannot be reached; trouble() says which.
  [[nodiscard]] runtime::Task<bool> find_all();

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
  void refuse(Report why) { trouble_ = std::move(why); }
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

 private:
  void begin_attempt(Patience& patience) const noexcept {
    if (patience.begun_ns == 0 && !patience.is_of_many) patience.begun_ns = shard_.now_ns();
  }
  // Where the keys are shared out among several nodes.
  struct Spread {
    cluster::MemberList list;
    const cluster::Routing& routing;  // The settings have it.
  };

  [[nodiscard]] uint32_t node_of(const KeyOwner& place) const noexcept {
    if (place.key.empty()) return ShardPlace::from(place.shard).node;
    return spread_ ? spread_->routing.home_of(cluster::slot_of(place.key.bytes())) : 0;
  }
  [[nodiscard]] NodeConnections::Parts parts() noexcept {
    return {.shard = shard_, .settings = settings_, .watcher = *this, .ended = ended_};
  }
  // Of a node that may be elsewhere by now, which its connection does not see: that is put aside.
  [[nodiscard]] runtime::Task<> look_elsewhere(KeyOwner place, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<> await_state(KeyOwner place, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<bool> establish_node(uint32_t node, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<bool> establish_at(uint32_t number, uint64_t deadline_ns);
  // The node at the address, and what it says of others.
  [[nodiscard]] runtime::Task<Reported<Discovery>> find_first(uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Result<cluster::ToldMembers>> told_by(Connection& connection,
                                                                    uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Reported<>> learn(const Discovery& found, uint64_t deadline_ns);
  void spread_over(KnownNodes::First first);
  [[nodiscard]] Target listed(uint32_t node) const {
    const cluster::Member& member = spread_->list.members[node];
    return settings_.target.at({.host = member.host, .port = member.port});
  }
  // One of several, which must be the one that the list names.
  [[nodiscard]] runtime::Task<Reported<Discovery>> find_member(uint32_t node, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Reported<Discovery>> find_member_once(uint32_t node, uint64_t deadline_ns);
  // Has the other nodes say where this one is by now. False: where it was looked for.
  [[nodiscard]] runtime::Task<bool> ask_for_address(uint32_t node, uint64_t deadline_ns);
  void take_addresses(cluster::MemberList list);
  void update_short_ways();
  void update_many_ways();

  runtime::Shard& shard_;
  const Settings& settings_;
  ForkGuard guard_;
  EndedConnections ended_;
  std::vector<std::unique_ptr<NodeConnections>> nodes_;  // One at least; of a list in its order.
  NodeConnections* sole_ = nullptr;                      // Of a node alone, that one.
  uint32_t told_ = 0;
  std::optional<Spread> spread_;          // Nothing: the node has all keys.
  std::vector<uint32_t> shards_of_ways_;  // Of each node, as ShortWays::way_of_slot was made for.
  ShortWays own_ways_;
  ShortWays* ways_ = &own_ways_;
  Report trouble_{Code::kOk, "", ""};
  uint64_t client_id_;
  uint64_t last_sequence_ = 0;
  uint64_t connections_ = 0;
};

}  // namespace refract::client
