// SPDX-License-Identifier: Apache-2.0
// What the owner of a node's objects asks of other nodes, and what it is told: object/directory implements it
// where nodes belong together. Without it a node has what it has.
//
// Threads: only the shard that owns the objects.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/result.h"
#include "refract/object/owner/object_store.h"
#include "refract/rpc/server.h"

namespace refract::object {

// What became of a delete on all nodes.
struct Removed {
  Code code = Code::kUnavailable;
  uint64_t birth = 0;               // kOk: of what was deleted; kVersionMismatch: of what is there.
  uint64_t holders = 0;             // Of its memory, on all nodes together.
  std::vector<std::string> missed;  // Nodes that have not acknowledged it yet.
};

// How a copy is to come.
enum class TransferWish : uint8_t { kAuto = 0, kSend = 1, kRead = 2 };
struct PullWish {
  TransferWish by = TransferWish::kAuto;
  bool is_checked = false;     // The holders' digests of what comes are compared.
  bool is_in_advance = false;  // Nothing needs it yet.
  uint64_t plan = 0;           // Of a broadcast (docs/design/061-broadcast.md); 0: it follows none.
};

class Elsewhere {
 public:
  // The service, as it is told.
  class Asker {
   public:
    // Of a claim() that did not answer at once.
    virtual void claimed(uint64_t ticket, Code code) noexcept = 0;
    virtual void removed(uint64_t ticket, const Removed& removed) noexcept = 0;
    // One look at all nodes has ended without the object. It began behind the want() of this arrival, and
    // tells nothing to those that came later. kNotFound: no node has it. kUnavailable: some that may have it
    // were not reached. kNoSpace: there is no room for it here.
    virtual void absent(std::string_view id, uint64_t arrival, Code code) noexcept = 0;
    [[nodiscard]] virtual bool is_awaited(std::string_view id) const noexcept = 0;
    // Whether a call is under way that may make it.
    [[nodiscard]] virtual bool is_making(std::string_view id, uint64_t birth) const noexcept = 0;
    // Another birth has the id: a creation of this one is given up.
    virtual void lost(std::string_view id, uint64_t birth) noexcept = 0;
    // The store was changed: to be called once behind the changes of a turn.
    virtual void store_changed() noexcept = 0;

   protected:
    ~Asker() = default;
  };

  virtual ~Elsewhere() = default;
  // Before all else; null: nothing is told any more.
  virtual void answer_to(Asker* asker) noexcept = 0;

  // Whether the id must be claimed before it is made here: all but those that this node gave out.
  [[nodiscard]] virtual bool needs_claim(std::string_view id) const noexcept = 0;
  // Takes the id for this birth. kOk; kExists: another birth has it; kUnavailable: the id's home is away or
  // knows too little. Nothing: claimed() follows, in some seconds at most.
  [[nodiscard]] virtual std::optional<Code> claim(std::string_view id, uint64_t birth, uint64_t ticket) = 0;
  // A claim that was granted, or asked for, is of no use any more: nothing was made, or it was given up.
  virtual void unclaim(std::string_view id, uint64_t birth) = 0;

  // is_awaited(id), and it is not here: from now on it is looked for, until it is here or not awaited.
  // Arrivals are numbers that grow. Of several wishes the last one counts, and a get needs it now.
  virtual void want(std::string_view id, uint64_t arrival, const PullWish& wish) = 0;
  // Deletes it on all nodes. `birth` 0: whichever there is. removed() follows.
  virtual void remove(std::string_view id, uint64_t birth, uint64_t ticket) = 0;
  // Which nodes have it, this one among them: a look as that of want(), without a pull.
  struct Located {
    Code code = Code::kUnavailable;
    uint64_t birth = 0;
    ObjectParts parts;
    std::vector<std::string> holders;
    uint8_t wanted = 0;   // Copies that are to be kept,
    uint8_t counted = 0;  // and those that are.
  };
  using TakeLocated = std::function<void(const Located&)>;
  virtual void locate(std::string_view id, TakeLocated take) = 0;

  // So many copies of it are to be kept on different nodes; 0: none but those that gets leave. Waits for them
  // until a moment of the shard's clock. `birth` 0: whichever there is.
  struct KeptCopies {
    Code code = Code::kUnavailable;  // kNotFound, kVersionMismatch, kUnavailable: as Removed's.
    uint64_t birth = 0;
    uint8_t wanted = 0;   // Another client may want another number meanwhile.
    uint8_t counted = 0;  // Those that there are.
  };
  using TakeCopies = std::function<void(const KeptCopies&)>;
  virtual void set_copies(std::string_view id, uint64_t birth, uint8_t wanted, uint64_t until_ns,
                          TakeCopies take) = 0;
  // In how much time each node could have these objects, the quickest first; at most wire::kRankIdsMax. Ends
  // at that moment of the shard's clock at the latest.
  struct RankedMember {
    std::string name;
    Code code = Code::kDeadlineExceeded;  // As wire::RankedNode has it, but kUnavailable for kAway.
    uint64_t time_ns = 0;
    uint64_t missing_bytes = 0;
    uint32_t missing = 0;
    uint32_t unreachable = 0;
    bool is_guessed = false;
  };
  struct Ranked {
    Code code = Code::kUnavailable;  // kOverloaded: too many are under way.
    std::vector<Code> ids;           // kUnavailable: some node that may have it was not reached.
    std::vector<RankedMember> members;
  };
  using TakeRanked = std::function<void(const Ranked&)>;
  virtual void rank(std::vector<std::string> ids, uint64_t until_ns, TakeRanked take) = 0;
  // Brings copies to these nodes, all at once: each passes on what has come to it
  // (docs/design/061-broadcast.md). No names: to all nodes. Ends at that moment of the shard's clock at the
  // latest.
  struct BroadcastNode {
    std::string name;
    // kOk: it has a copy. kUnavailable: it is away. kNoSpace. kExists: another birth is there. kCancelled: it
    // was deleted meanwhile. kNotFound: none of those that were to give it had it any more.
    Code code = Code::kDeadlineExceeded;
  };
  struct Broadcasted {
    // kNotFound; kOverloaded; kInvalidArgument: some names are of no node, and `nodes` has these alone.
    Code code = Code::kUnavailable;
    uint64_t birth = 0;
    std::vector<BroadcastNode> nodes;  // In the order in which they were named; else in the list's.
  };
  using TakeBroadcasted = std::function<void(const Broadcasted&)>;
  virtual void broadcast(std::string_view id, std::vector<std::string> nodes, uint64_t until_ns,
                         TakeBroadcasted take) = 0;
  // So many bytes are missing here: copies that are kept may become others' for them.
  virtual void release(uint64_t bytes) = 0;

  // The nodes with which nothing is agreed upon now: away, starting, or under another list.
  [[nodiscard]] virtual std::vector<std::string> away() const = 0;

  // What the store has told.
  virtual void sealed(std::string_view id, const Object& object) = 0;
  virtual void deleted(std::string_view id, const Object& object) = 0;
  // Whether the process behind this session is another node.
  [[nodiscard]] virtual bool is_node(rpc::SessionId session) const noexcept = 0;
  // A copy goes to the process behind this session, which may be another node's.
  virtual void passed_on(rpc::SessionId session, std::string_view id) = 0;
  // False: it is another node's, and the lists of both differ.
  [[nodiscard]] virtual bool may_fetch(rpc::SessionId session) const noexcept = 0;
};

}  // namespace refract::object
