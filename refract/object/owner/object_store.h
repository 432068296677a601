// SPDX-License-Identifier: Apache-2.0
// All objects of a shard, as their owner has them: room for them, their records in the table, what they
// count, which of them may go. It knows nothing of messages; object_service.h does.
//
// Of the limit, data and metadata count, exactly: of sealed objects, of those that are being filled, and of
// those that have no id any more while a reader holds them.
//
// Threads: used only by the shard that owns the space. Nothing throws; memory comes from the heap given.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/result.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/table/table.h"
#include "refract/memory/heap.h"
#include "refract/memory/uses.h"
#include "refract/memory/writer.h"
#include "refract/object/layout/object_layout.h"

namespace refract::object {

struct ObjectStoreParts {
  Writer& writer;
  Heap& heap;
  kv::Table& table;
  UseSource* uses = nullptr;  // What readers got, by the object's offset: untrusted. Null: nothing tells.
  uint64_t limit = 0;
  // Asked whether memory can still come, before objects are evicted for a run of it. Null: none comes.
  const kv::GrowthSource* growth = nullptr;
};

struct Creation {
  Offset object;
  uint64_t birth = 0;
  ObjectParts parts;
  bool is_sealed = false;  // It is no creation any more.
};

struct Object {
  Offset object;
  uint64_t birth = 0;
  ObjectParts parts;
  bool is_kept = false;
  CopiesWord copies;
};

struct ObjectAccounts {
  uint64_t limit = 0;
  uint64_t sealed_bytes = 0;
  uint64_t creation_bytes = 0;
  uint64_t departed_bytes = 0;
  uint64_t kept_bytes = 0;
  uint64_t objects = 0;
  uint64_t creations = 0;
  uint64_t departed = 0;
  uint64_t sealed_ever = 0;
  uint64_t deleted_ever = 0;
  uint64_t evicted_ever = 0;
  uint64_t evicted_bytes_ever = 0;
  uint64_t aborted_ever = 0;

  [[nodiscard]] uint64_t used() const noexcept { return sealed_bytes + creation_bytes + departed_bytes; }
};

struct HeldBytes {
  uint64_t sealed_bytes = 0;     // Of sealed objects that are held,
  uint64_t objects = 0;          // their number,
  uint64_t kept_only_bytes = 0;  // and of sealed ones that are kept and not held.
};

class ObjectStore {
 public:
  // Hears of each object that readers find from now on, and of each that they do not find any more, in this
  // order. Called in the middle of a change: it must not call the store. The id lies in the object.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void sealed(std::span<const std::byte> id, const Object& object) = 0;
    // By a caller, or evicted.
    virtual void deleted(std::span<const std::byte> id, const Object& object) = 0;
  };

  explicit ObjectStore(const ObjectStoreParts& parts);
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;
  ~ObjectStore();
  void tell(Listener* listener) noexcept;

  // --- Recovery: node/hosted/hosted_store.h says in which order. ---

  // Behind the table's mark_live: marks all objects that records name. kCorrupt: a record contradicts the
  // heap.
  [[nodiscard]] Result<> mark_live();
  // Behind the table's finish_recovery: finishes what a crash interrupted, and gives back what departed and
  // is not held. Creations stay: their creators come back, or end_creation() is called.
  [[nodiscard]] Result<> finish_recovery();

  // --- Creations ---

  // Takes room. kExists; kTooLarge, for the limit; kInvalidArgument: no id, birth or lengths of an object.
  // The same birth again: the creation, or the object, that has it; kIndeterminate, where that is gone.
  // kNoSpace: no creation was made. shortage() says what is worth waiting for.
  struct NewObject {
    std::span<const std::byte> id;
    uint64_t birth = 0;
    uint64_t body_bytes = 0;
    uint32_t metadata_bytes = 0;
    bool is_pulled = false;  // From another node: a birth that went here may come again.
  };
  [[nodiscard]] Result<Creation> create(const NewObject& object);
  // create() and seal() in one, with one record: of what is there as a whole. `fill` stores all that belongs
  // into the creation's room, and calls nothing of the store. A step that is interrupted has made nothing.
  using Fill = std::function<void(const Creation&)>;
  [[nodiscard]] Result<Object> make(const NewObject& object, const Fill& fill);
  // What the last create(), make(), seal() or keep() lacked, which said kNoSpace.
  struct Shortage {
    // So much memory in one piece, which can come: the caller asks for it. Nothing was evicted.
    uint64_t wanted_bytes = 0;
    // Some objects have gone, and more would: a step is bounded. The same call is to be tried in the next
    // turn.
    bool is_under_way = false;
  };
  [[nodiscard]] Shortage shortage() const noexcept;
  // kNotFound, kExists: there is one with another birth.
  [[nodiscard]] Result<Creation> creation(std::span<const std::byte> id, uint64_t birth);
  // Where its body, padding and metadata belong. REQUIRES: it is no object yet.
  [[nodiscard]] std::span<std::byte> room_of(const Creation& creation) noexcept;
  // Through which they are stored.
  [[nodiscard]] Writer& writer() noexcept;
  // Publishes it: one 8-byte store. REQUIRES: all of its bytes are there. Of one that is sealed already: its
  // object. kExists: sealed with another birth. kNotFound: there was no such creation, or it was ended.
  // kIndeterminate: the object was sealed and is gone, or that is too long ago to know: the last kBirths that
  // went are remembered, by this process. kNoSpace: the table has no room for its record; it is as it was.
  [[nodiscard]] Result<Object> seal(std::span<const std::byte> id, uint64_t birth, CopiesWord copies = {});
  static constexpr size_t kBirths = 4096;
  // kNotFound, kExists as creation(). REQUIRES: nothing writes its bytes any more.
  // Of one that comes from another node as of none: end_pull() ends that.
  [[nodiscard]] Code end_creation(std::span<const std::byte> id, uint64_t birth);
  [[nodiscard]] Code end_pull(std::span<const std::byte> id, uint64_t birth);
  // The same by its creator's will. The birth is remembered, also where there is no such creation: from then
  // on create() says kNotFound of it.
  [[nodiscard]] Code abort_creation(std::span<const std::byte> id, uint64_t birth);
  // Ids of the creations that there are: for what a restart has found.
  struct OpenCreation {
    std::vector<std::byte> id;
    uint64_t birth = 0;
    bool is_pulled = false;
  };
  [[nodiscard]] std::vector<OpenCreation> creations() const;

  // --- Objects ---

  [[nodiscard]] Result<Object> find(std::span<const std::byte> id);
  // Frees the id now, and the memory with its last holder. `birth` 0: any; else kVersionMismatch where it is
  // another's. Returns how many hold it. kNoSpace: it is held, and the full table has no room to say so;
  // nothing was changed.
  [[nodiscard]] Result<uint64_t> erase(std::span<const std::byte> id, uint64_t birth);
  // kNotFound. kNoSpace: the table has no room for another record; nothing was changed.
  [[nodiscard]] Code keep(std::span<const std::byte> id, bool is_kept);
  // What is bound is never evicted, whatever keep() says. It needs no room, and survives the owner's process.
  // kNotFound: there is none of this birth.
  Code set_copies(std::span<const std::byte> id, uint64_t birth, CopiesWord copies);
  // What is bound, not kept and not held, that which was bound or refused first at first, until `visit`
  // returns false. It must not call the store.
  void visit_bound(const std::function<bool(std::span<const std::byte> id, const Object&)>& visit);
  // It goes to the end of those that are visited.
  void put_behind(std::span<const std::byte> id, uint64_t birth);
  // Gives back what is not held, kept or bound, least recently used first, until it is so many bytes; of
  // those that were used longest ago first what was pulled from other nodes. Returns how many. At most
  // kEvictedAtOnce objects; where it returns less and shortage().is_under_way, more can go.
  uint64_t evict(uint64_t bytes);
  static constexpr size_t kEvictedAtOnce = 1024;
  // Gives back departed objects that are not held any more. Returns how many are left.
  size_t release_departed();

  // --- Tombstones: births that were deleted on all nodes, and that not all nodes know of yet. ---

  // Once it is there it survives the owner's process. kNoSpace: nothing was changed.
  [[nodiscard]] Code add_tombstone(std::span<const std::byte> id, uint64_t birth);
  void remove_tombstone(std::span<const std::byte> id, uint64_t birth);
  [[nodiscard]] bool has_tombstone(std::span<const std::byte> id, uint64_t birth) const;
  using Tombstones = std::set<std::pair<std::string, uint64_t>>;  // Id, birth.
  [[nodiscard]] const Tombstones& tombstones() const noexcept;

  // --- Telling ---

  [[nodiscard]] const ObjectAccounts& accounts() const noexcept;
  // Looks at all pins and all objects.
  [[nodiscard]] HeldBytes held();
  [[nodiscard]] uint64_t holders_of(Offset object);

  struct Listed {
    std::span<const std::byte> id;
    Object object;
    bool is_sealed = false;
  };
  // Visits what stands in some buckets from `cursor` on; 0 at first and behind the last. One that is there
  // throughout comes at least once.
  [[nodiscard]] uint64_t list(uint64_t cursor, const std::function<void(const Listed&)>& visit) const;

  // A record whose bytes contradict themselves, or the heap: for check and inspect.
  struct Damage {
    Offset at;
    const char* what = nullptr;
  };
  [[nodiscard]] std::optional<Damage> damage() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace refract::object
