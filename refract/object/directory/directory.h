// SPDX-License-Identifier: Apache-2.0
// One node's part in finding objects on all nodes (docs/design/052-directory.md): the home of some ids, a
// member that says what it has, and the one that gets for its clients what others have.
//
// It keeps a stream to each other member as long as there is a session, looks for what is awaited here and
// pulls it, and answers the calls of directory_wire.h. A node without changes, look-ups and claims sends
// nothing and needs no CPU.
//
// Threads: only the shard that owns the objects.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/cluster/members.h"
#include "refract/cluster/peers.h"
#include "refract/kv/owner/ports.h"
#include "refract/object/directory/home_table.h"
#include "refract/object/directory/outside_home.h"
#include "refract/object/owner/elsewhere.h"
#include "refract/object/owner/object_store.h"
#include "refract/object/transfer/arrivals.h"
#include "refract/object/transfer/object_transfer.h"
#include "refract/object/transfer/path_teller.h"
#include "refract/object/transfer/pull_room.h"
#include "refract/rpc/server.h"
#include "refract/runtime/shard.h"

namespace refract::object {

class Directory final : public rpc::Service, public Elsewhere, public PathTeller::Source {
 public:
  // All outlive the directory.
  struct Parts {
    ObjectStore& store;
    runtime::Shard& shard;
    cluster::Peers& peers;
    kv::GrowthSource& growth;
    kv::SessionPins* pins = nullptr;  // PullRoom::Parts has it.
    // Whether a session is another member's. It must have proven that.
    std::function<bool(rpc::SessionId)> is_node;
    std::array<uint64_t, 2> identity{};  // Of this node's memory.
    // So long another member may believe in a session whose end this one has seen.
    uint64_t unseen_ns = 30 * kSecond_ns;
    // So long the bound copies of a member that is away are counted on.
    uint64_t grace_ns = 60 * kSecond_ns;
    TransferLimits transfers = {};
    uint64_t seed = secure_random_u64();  // Of what it leaves to chance; of each process another one.
    // Children of each node in every broadcast. 0: as many as its plan finds best. Tests have others.
    size_t broadcast_degree = 0;
    OutsideHome* outside = nullptr;  // The home of all ids; null: members are homes.
    Arrivals* arrivals = nullptr;    // Null: what is on its way here is not given to others.
  };
  // Behind the store's recovery. Pulls that it has found are given up.
  explicit Directory(const Parts& parts);
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  ~Directory() override;

  // What carries the answers. Before the first session; null: no call is answered any more.
  void answer_through(rpc::Server* server) noexcept;
  // Begins under this list, or continues under another one: all that other members and this one had agreed
  // upon is said again.
  void follow(const cluster::Members& members);

  void handle(std::span<const rpc::IncomingCall> calls) noexcept override;
  void session_opened(rpc::SessionId session) noexcept override;
  void session_closed(rpc::SessionId session) noexcept override;

  void answer_to(Asker* asker) noexcept override;
  [[nodiscard]] bool needs_claim(std::string_view id) const noexcept override;
  [[nodiscard]] std::optional<Code> claim(std::string_view id, uint64_t birth, uint64_t ticket) override;
  void unclaim(std::string_view id, uint64_t birth) override;
  void want(std::string_view id, uint64_t arrival, const PullWish& wish) override;
  void remove(std::string_view id, uint64_t birth, uint64_t ticket) override;
  void locate(std::string_view id, TakeLocated take) override;
  void set_copies(std::string_view id, uint64_t birth, uint8_t wanted, uint64_t until_ns,
                  TakeCopies take) override;
  void rank(std::vector<std::string> ids, uint64_t until_ns, TakeRanked take) override;
  void broadcast(std::string_view id, std::vector<std::string> nodes, uint64_t until_ns,
                 TakeBroadcasted take) override;
  void release(uint64_t bytes) override;
  [[nodiscard]] std::vector<std::string> away() const override;
  void sealed(std::string_view id, const Object& object) override;
  void deleted(std::string_view id, const Object& object) override;
  void passed_on(rpc::SessionId session, std::string_view id) override;
  [[nodiscard]] bool is_node(rpc::SessionId session) const noexcept override;
  [[nodiscard]] bool may_fetch(rpc::SessionId session) const noexcept override;

  struct Counts {
    HomeTable::Counts home;
    bool is_complete = false;         // The home has heard from all.
    uint64_t look_ups = 0;            // For clients of this node,
    uint64_t asked_all = 0;           // among them those that the home could not tell.
    uint64_t pulls = 0;               // Copies that came,
    uint64_t pulled_bytes = 0;        // their bytes,
    uint64_t pulls_failed = 0;        // and attempts that brought none.
    uint64_t pulls_from_several = 0;  // Among them: several holders brought pieces of one.
    uint64_t givers_left = 0;         // Holders that did not bring what they were asked for.
    uint64_t transfer_calls = 0;      // Of all pulls: round trips to holders,
    uint64_t transfer_reads = 0;      // READs,
    uint64_t read_bytes = 0;          // the bytes that those have brought,
    uint64_t message_bytes = 0;       // and those that came in answers.
    PullRoom::Counts room;
    uint64_t claims = 0;          // That were asked for,
    uint64_t claims_refused = 0;  // and that another birth had, or that were not answered.
    uint64_t conflicts = 0;       // Objects and creations of this node that another birth's home refused.
    uint64_t dropped = 0;         // Because another node's client deleted them.
    uint64_t tombstones = 0;      // Now, of this node.
    uint64_t streams = 0;         // Likewise, to other homes.
    uint64_t short_ones = 0;      // Likewise: objects with fewer copies than they are to have.
    uint64_t copies_ordered = 0;  // From members, by this home.
    uint64_t released = 0;        // Bound copies of this node that became loose, for room.
  };
  [[nodiscard]] Counts counts() const noexcept;
  [[nodiscard]] NamedPaths paths() const override;
  [[nodiscard]] const HomeTable& home() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace refract::object
