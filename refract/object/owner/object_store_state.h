// SPDX-License-Identifier: Apache-2.0
// What an ObjectStore knows by itself, and the steps that its calls are made of: private to object_store*.cc.
//
// Everything here follows from the records: it is rebuilt when the owner starts. The standing of an object in
// the index is the kind of its record; accounts change with it, and with nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "refract/object/layout/object_key.h"
#include "refract/object/owner/object_index.h"
#include "refract/object/owner/object_store.h"
#include "refract/object/owner/recent_births.h"

namespace refract::object {

struct ObjectStore::State {
  using Number = ObjectIndex::Number;
  using Standing = ObjectIndex::Standing;

  explicit State(const ObjectStoreParts& given) : parts(given) { accounts.limit = given.limit; }

  // --- Objects where they lie: object_store.cc ---

  [[nodiscard]] const ObjectHeader& header_of(Offset object) const noexcept {
    return parts.writer.view<ObjectHeader>(object);
  }
  [[nodiscard]] ObjectParts parts_of(Offset object) const noexcept;
  [[nodiscard]] std::span<const std::byte> id_of(Offset object) const noexcept;
  [[nodiscard]] ObjectRecord record_of(Offset object, uint32_t flags) const noexcept;
  [[nodiscard]] Object object_of(Number number) const noexcept;
  [[nodiscard]] Creation creation_of(Number number) const noexcept;

  // --- Records ---

  // kNone: there is none.
  [[nodiscard]] Number find(KeyKind kind, std::span<const std::byte> id);
  [[nodiscard]] Code put(const ObjectKey& key, const ObjectRecord& record);
  // Where memory lacks, objects go for it.
  [[nodiscard]] Code put_with_room(const ObjectKey& key, const ObjectRecord& record);
  void remove(const ObjectKey& key);

  // --- Standings and accounts ---

  Number add(Offset object, Standing standing);
  void set_standing(Number number, Standing standing);
  // Of a sealed object whose record has, or has not, the flag kKept.
  [[nodiscard]] Standing sealed_standing(Offset object, bool is_kept) const noexcept;
  [[nodiscard]] CopiesWord copies_of(Offset object) const noexcept;
  // kNone: there is none of this birth.
  [[nodiscard]] Number find_sealed(std::span<const std::byte> id, uint64_t birth);
  void forget(Number number);
  void count(Standing standing, const ObjectParts& counted, bool is_added) noexcept;

  // --- Creations: object_store_creations.cc ---

  [[nodiscard]] Code check(const NewObject& object) const noexcept;
  // The creation, or the object, that has this birth; kOk: there may be one.
  [[nodiscard]] Code look_for_birth(const NewObject& object, Number& number);
  [[nodiscard]] Code give_up(std::span<const std::byte> id, uint64_t birth, bool is_pulled);
  [[nodiscard]] Result<Offset> take_room(const ObjectParts& of);
  // A creation without a record; to be published or given back within the step.
  [[nodiscard]] Result<Number> take_unrecorded(const NewObject& object);
  void give_back(Number number);
  // `has_record`: of a creation, which goes behind the object's.
  [[nodiscard]] Code publish(Number number, std::span<const std::byte> id, bool has_record);
  void write_header(Offset object, const NewObject& of);

  // --- Departures: object_store_departures.cc ---

  // A departure has memory for its record, or changes nothing: a buffer is kept for one.
  void take_spare();
  void release_spare(Offset at);
  [[nodiscard]] Code put_departed(const ObjectRecord& record);
  // The object has no id from now on.
  [[nodiscard]] Code depart(Number number, bool is_evicted);
  // Gives its memory back where no pin was seen. REQUIRES: pins were looked at since it departed.
  bool end_departed(Number number);
  size_t release_departed();

  // --- Eviction: object_store_eviction.cc ---

  // What a call may let go of.
  void begin_step() noexcept {
    shortage = {};
    budget = kEvictedAtOnce;
  }
  void note_uses();
  // What is held counts as used, from the last look at pins. Returns how many bytes of loose objects are.
  uint64_t note_held();
  struct Gone {
    uint64_t bytes = 0;   // That came back,
    size_t departed = 0;  // and how many objects have no id any more.
  };
  Gone evict(std::span<const Number> batch);
  void choose_oldest(uint64_t bytes, std::vector<Number>& batch) const;
  uint64_t evict_oldest(uint64_t bytes);
  [[nodiscard]] Code make_limit(uint64_t counted_bytes);

  // --- Windows, that objects leave for a run of memory: object_store_windows.cc ---

  [[nodiscard]] bool can_make_room(uint64_t bytes);
  // kOk: it is worth another try.
  [[nodiscard]] Code make_room(uint64_t bytes);
  void bar_chunks();
  void bar(Offset at, uint64_t bytes);
  [[nodiscard]] bool begin_window(uint64_t chunks);
  void end_window();
  [[nodiscard]] bool move_spare();
  [[nodiscard]] bool can_do_without_chunk() const noexcept;
  enum class Emptied : uint8_t { kYes, kNotYet, kBlocked };
  [[nodiscard]] Emptied empty_window();
  [[nodiscard]] bool gather_window(std::vector<Number>& leaving);
  [[nodiscard]] bool empty_buffer(Offset buffer, uint64_t chunk_at, std::vector<Number>& leaving);
  [[nodiscard]] bool move_record(const kv::Table::HashedKey& key);

  // --- Recovery: object_store_recovery.cc ---

  struct Named {
    KeyKind kind = KeyKind::kSealed;
    std::span<const std::byte> id;
    ObjectRecord record{};
  };
  // Null: it is sound, and `named` is what it says.
  [[nodiscard]] const char* read_record(kv::Slot slot, Named& named) const noexcept;
  [[nodiscard]] static const char* read_tombstone(std::span<const std::byte> key, Named& named) noexcept;
  [[nodiscard]] const char* check_record(const Named& named) const noexcept;
  // Of what a walk over all records ends at; `visit(named)` returns what is wrong, or null.
  template <typename Visit>
  [[nodiscard]] std::optional<Damage> visit_records(Visit&& visit) const;
  [[nodiscard]] const char* adopt(const Named& named);
  void settle_records();
  void order_by_age();

  const ObjectStoreParts parts;
  Listener* listener = nullptr;
  ObjectAccounts accounts;
  ObjectIndex index;
  RecentBirths births{kBirths};
  Tombstones tombstones;  // As the table has them.
  Shortage shortage;
  size_t budget = 0;
  Offset spare;  // Room for the record of a departed object.
  std::optional<Damage> damage;
  std::optional<Heap::ChunkRun> window;
  uint64_t needed_chunks = 0;  // Of what room is made for.
  bool can_move_records = true;
  std::vector<bool> barred;        // Chunks that cannot be emptied.
  std::vector<bool> with_records;  // And those that may hold records of the table.
  std::vector<uint64_t> used_places;
};

}  // namespace refract::object
