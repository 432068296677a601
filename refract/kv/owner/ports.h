// SPDX-License-Identifier: Apache-2.0
// What a table's owner needs of others, as ports: memory, room, windows, pins, a log, a snapshot, upkeep. The
// node, or a test, implements them.
//
// Threads: each is used only by the shard that owns the table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "refract/base/check.h"
#include "refract/base/result.h"
#include "refract/kv/layout/contract.h"
#include "refract/kv/layout/decision_words.h"
#include "refract/kv/layout/layout.h"
#include "refract/memory/pins.h"
#include "refract/memory/remote_pointer.h"
#include "refract/memory/space.h"

namespace refract::rpc {
struct Responder;
}

namespace refract::kv {

// --- Memory ---

// Where a service asks for memory: the node, which gets regions from its keeper.
class GrowthSource {
 public:
  virtual ~GrowthSource() = default;
  // By a region in which `bytes` fit as one value. False: the node is at its limit, or was refused as much or
  // less; what does not fit now does not fit.
  [[nodiscard]] virtual bool can_grow(uint64_t bytes) const noexcept = 0;
  // Asks for a region in which `bytes` fit as one value. Returns at once, may be called again while a request
  // is under way, and not from inside TableService::on_memory_added. A port that answered true in can_grow()
  // calls TableService::on_memory_added or on_growth_refused later on.
  virtual void want(uint64_t bytes) noexcept = 0;
};

// For a space that has all the memory it will ever have.
class NoGrowth final : public GrowthSource {
 public:
  [[nodiscard]] bool can_grow(uint64_t) const noexcept override { return false; }
  void want(uint64_t) noexcept override {}
};

// Makes room where the memory is full, so that a put need not fail: docs/design/030-eviction.md.
class RoomMaker {
 public:
  virtual ~RoomMaker() = default;

  // The heap has no room for `bytes`, and `attempts` calls of this for the same buffer have not helped. kOk:
  // entries have left the table, so that it is worth another try. Else what to fail with: kNoSpace, which
  // also says that room is on its way, or what the log says.
  [[nodiscard]] virtual Code make_room(uint64_t bytes, int attempts) noexcept = 0;
  // The table needs a chunk for buckets or lines, and none is left. Room will come, if there is any.
  virtual void make_room_for_table() noexcept = 0;
};

// Several sources of pins as one, for a heap whose readers announce themselves in different ways: clients in
// their own pages, the owner itself for views that it reads out on their behalf.
class PinSources final : public PinSource {
 public:
  // `source` outlives the heap that asks this object.
  void add(PinSource& source) noexcept {
    REFRACT_CHECK(count_ < sources_.size());
    sources_[count_++] = &source;
  }

  void collect(PinSet& pins) noexcept override {
    for (size_t i = 0; i < count_; ++i) sources_[i]->collect(pins);
  }

 private:
  std::array<PinSource*, 4> sources_{};
  size_t count_ = 0;
};

// --- Windows ---

struct Window {
  RemotePointer address;  // Of the first byte.
  RemoteKey key;
};

// Where a service gets windows from: pieces of memory that one peer may reach by one-sided requests for a
// while. The node implements it over a domain's register_region and revoke_region.
//
// A window is asked for only for sessions whose channel says one_sided_bytes_min, so it needs to be open in
// the domain of such channels only. A peer that knows the key may use it: it is drawn at random and told to
// one peer.
class WindowSource {
 public:
  virtual ~WindowSource() = default;
  // Nothing: none is free, and the bytes travel in messages. The bytes stay where they are
  // until close().
  [[nodiscard]] virtual std::optional<Window> open(std::span<std::byte> bytes, Rights rights) = 0;
  // From now on no read or write goes through the window, a transfer under way included: it fails. Returns
  // how many bytes have been written through it; a byte written twice counts twice.
  virtual uint64_t close(const Window& window) noexcept = 0;
};

// --- Changes ---

// The log of a node that keeps its data on disk (docs/design/025-log.md): it learns of a change before the
// table makes it, so that the change can be made again elsewhere.
//
// The table calls append() when nothing can fail any more, and publishes at once behind it. Positions count
// bytes of the log and only grow. An implementation talks to its own thread by itself.
class ChangeLog {
 public:
  enum class Kind : uint8_t {
    kPut = 1,
    kErase = 2,
    kGroup = 3,  // Of the last change that a recovery is told of, alone: it was a group.
    // Of a part whose home is another node, alone (docs/design/070): a key that it holds and does not change.
    kMark = 4,
  };
  // What a mark says, in place of an expiry.
  static constexpr uint64_t kMarkRead = 0;
  static constexpr uint64_t kMarkWritten = 1;     // There was nothing to erase.
  static constexpr uint64_t kMarkGeneration = 2;  // No key, but which memory of the home decides.

  struct Change {
    Kind kind = Kind::kPut;
    uint64_t stamp = 0;  // The entry's version; of an erasure, a stamp of its own. Higher than all before.
    uint64_t expires_wall_ns = 0;
    RequestId request = {};
    std::span<const std::byte> key = {};
    // Of a put: its bytes lie in `buffer`, and stay as they are there.
    std::span<const std::byte> value = {};
    Offset buffer{};
    // Of kGroup: the stamps of its changes, which rise. `stamp` is its number, and nothing else is said.
    std::span<const uint64_t> group = {};
  };

  virtual ~ChangeLog() = default;

  // kOk: append() may be called for a key and a value of these lengths. kOverloaded: not before the log has
  // advanced, of which its owner tells the service (on_log_progress). kReadOnly: the log cannot be written.
  [[nodiscard]] virtual Code room_for(uint64_t key_bytes, uint64_t value_bytes) const noexcept = 0;
  // REQUIRES: room_for() said kOk since the last append.
  virtual void append(const Change& change) noexcept = 0;

  // Likewise, for a group of so many changes, whose keys and values together have so many bytes. kTooLarge:
  // never.
  [[nodiscard]] virtual Code room_for_group(uint64_t changes, uint64_t bytes) const noexcept = 0;
  // All of these, which a recovery finds together or not at all. Values of any length are copied: no buffer
  // is needed_until() for it. `number` is a stamp below theirs. REQUIRES: room_for_group() said kOk since the
  // last append; stamps rise; at most one change has an identity.
  virtual void append_group(uint64_t number, std::span<const Change> changes) noexcept = 0;

  // Where the last change ends, and up to where changes may be acknowledged.
  [[nodiscard]] virtual uint64_t appended() const noexcept = 0;
  [[nodiscard]] virtual uint64_t confirmed() const noexcept = 0;
  // What those are told that wait for confirmed(): kOk while it will come, else the code to answer with.
  [[nodiscard]] virtual Code failure() const noexcept = 0;

  // Whether the bytes of this buffer, which is replaced or erased now, are still to be read: then it must not
  // be reused before confirmed() has reached the position that is returned. 0: not needed.
  [[nodiscard]] virtual uint64_t needed_until(Offset buffer) const noexcept = 0;
};

// The same log, of transactions over several shards (docs/design/067). Each append as of ChangeLog, and with
// room_for_group() or, of what is settled, room_for(0, 0).
class PartLog {
 public:
  virtual ~PartLog() = default;

  // A group that takes effect if the transaction's home tells its log that it is decided. At least one
  // change.
  virtual void append_prepared(const TransactionName& name, uint64_t number,
                               std::span<const ChangeLog::Change> changes) noexcept = 0;
  // The transaction has happened, and with it these, its home's own; there may be none. The name has the
  // home's member where other nodes have parts of it.
  virtual void append_decided(const TransactionName& name, uint64_t number,
                              std::span<const ChangeLog::Change> changes) noexcept = 0;
  // What was prepared has taken effect, or never will. Or, of what was decided here and has the home's
  // member: no node asks for it any more.
  virtual void append_settled(const TransactionName& name, uint64_t stamp, bool has_happened) noexcept = 0;
};

// A snapshot learns that an entry is about to leave its place in the table, which it has not read yet
// (docs/design/027-snapshots.md).
class Departures {
 public:
  virtual ~Departures() = default;

  // The entry that `slot` names is replaced or removed by the owner's next store to that slot.
  virtual void departing(Slot slot) noexcept = 0;
  // Its buffer is to be retired now. True: it is still needed, and comes back to Table::retire later. Asked
  // once for each departure, and perhaps for buffers that never departed.
  [[nodiscard]] virtual bool keeps(Offset buffer) noexcept = 0;
  // The heap has no room. True: something was given back, so that it is worth another try.
  [[nodiscard]] virtual bool gives_way() noexcept = 0;
};

// Memory, time and the log need upkeep after a change. Chains replace entries without a call that leads to
// it, so the executor tells this port.
class ChainUpkeep {
 public:
  virtual ~ChainUpkeep() = default;
  // A chain has replaced a buffer, which is retired by now.
  virtual void on_chain_retired() noexcept = 0;
  // A chain that has installed something is to be answered. True: the log has not confirmed it yet; the reply
  // has been copied, and is given later.
  [[nodiscard]] virtual bool keeps_reply(const rpc::Responder& /*to*/,
                                         std::span<const std::byte> /*reply*/) noexcept {
    return false;
  }
};

// Asks other nodes what became of transactions (docs/design/070).
class FarLooks {
 public:
  virtual ~FarLooks() = default;
  // There may be something to ask.
  virtual void stir() = 0;
};

// What the table's service does for one that serves transactions over several shards, between their turns.
class PartUpkeep {
 public:
  virtual ~PartUpkeep() = default;
  // Keys are free again.
  virtual void on_settled() noexcept = 0;
  // A home on another node has been looked at, or could not be for some time.
  virtual void on_far_answer() noexcept {}
  // A turn that wanted room for so many bytes has ended. What its caller is told.
  [[nodiscard]] virtual Code on_turn(Code code, uint64_t bytes) noexcept = 0;
  // As ChainUpkeep's: a turn whose answer tells of the table is to be answered.
  [[nodiscard]] virtual bool keeps_reply(const rpc::Responder& to,
                                         std::span<const std::byte> reply) noexcept = 0;
};

}  // namespace refract::kv
