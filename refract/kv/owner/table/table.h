// SPDX-License-Identifier: Apache-2.0
// The key-value table's owner: its only writer. Readers work on the same bytes at the same time; what makes
// that sound is the order of the stores, (I1) to (I4) in layout.h. All goes through the space's Writer.
// Threads: used only by the shard that owns the space. Memory comes from the heap given.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/result.h"
#include "refract/kv/layout/contract.h"
#include "refract/kv/layout/decision_words.h"
#include "refract/kv/layout/layout.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/table/batch.h"
#include "refract/kv/owner/table/crowds.h"
#include "refract/kv/owner/table/held_back.h"
#include "refract/kv/owner/table/slot_uses.h"
#include "refract/kv/owner/table/table_types.h"
#include "refract/memory/heap.h"

namespace refract::kv {

class SessionRecords;
class Table : public TableNames {
 public:
  static constexpr uint64_t (*store_area_bytes)(uint64_t chunks_max) noexcept = table_area_bytes;
  // In a freshly formatted space. kNoSpace: not even the first buckets fit.
  [[nodiscard]] static Result<> format(Writer& writer, Heap& heap);

  // `writer`, `heap` and `clock` outlive the table, whose space is formatted. recover() comes first.
  Table(Writer& writer, Heap& heap, const Clock& clock);
  ~Table();
  // Finishes what a crash interrupted and tells the heap what is in use. kCorrupt: the bytes contradict
  // themselves; nothing was changed but what a split had left. `last`: the log's last change, whose slot a
  // crash may have kept from being stored; then it is made now; a group decides what is pending. kNoSpace.
  [[nodiscard]] Result<> recover(const ChangeLog::Change* last = nullptr);
  // Its steps, for a heap that others allocate from too: all mark what they have between the heap's
  // begin_recovery() and end_recovery(), then what is pinned; they finish behind it.
  [[nodiscard]] Result<> mark_live(const ChangeLog::Change* last, Recovery& recovery);
  void mark_pinned(Recovery& recovery);
  [[nodiscard]] Result<> finish_recovery(const ChangeLog::Change* last, Recovery& recovery);
  // From now on each change is told to `log`, and made at once behind that. Without room there nothing is
  // changed: kOverloaded until it has advanced, or kReadOnly. Null, as at first: none.
  void log_to(ChangeLog* log) noexcept { log_ = log; }
  [[nodiscard]] ChangeLog* log() const noexcept { return log_; }
  // The log has advanced: retires the buffers that it has read by now. Returns how many.
  size_t release_held_back();
  [[nodiscard]] const HeldBack& held_back() const noexcept { return held_back_; }
  [[nodiscard]] uint64_t hash(std::span<const std::byte> key) const noexcept;
  [[nodiscard]] HashedKey hashed(std::span<const std::byte> key) const noexcept { return {key, hash(key)}; }
  // The entry's version. kExists, kVersionMismatch, kNotFound: the condition did not hold. kNoSpace.
  [[nodiscard]] Result<uint64_t> put(const HashedKey& key, std::span<const std::byte> value,
                                     const PutOptions& options);
  [[nodiscard]] Result<uint64_t> put(std::span<const std::byte> key, std::span<const std::byte> value,
                                     const PutOptions& options) {
    return put(hashed(key), value, options);
  }

  // A put in steps, for values that arrive in pieces: nothing is visible before commit.
  [[nodiscard]] Result<Draft> begin(const HashedKey& key, uint64_t value_bytes, const PutOptions& options);
  // Where the value belongs, for callers that bring it by themselves before the commit.
  [[nodiscard]] std::byte* value_of(const Draft& draft) noexcept {
    return writer_.base() + draft.buffer.value + draft.lengths.value_at();
  }
  // REQUIRES: the piece lies within the value.
  void fill(const Draft& draft, uint64_t value_offset, std::span<const std::byte> piece);
  // kNoSpace, kOverloaded: the draft is as it was, for another try or abandon(). Else it is gone.
  [[nodiscard]] Result<uint64_t> commit(const Draft& draft, const PutOptions& options);
  void abandon(const Draft& draft);
  // Returns the version that was erased. With `if_version` 0 any version is.
  [[nodiscard]] Result<uint64_t> erase(const HashedKey& key, uint64_t if_version);
  [[nodiscard]] Result<uint64_t> erase(std::span<const std::byte> key, uint64_t if_version) {
    return erase(hashed(key), if_version);
  }
  // All writes at one moment, if all conditions hold then; else none, and the batch says which one failed:
  // with a condition's code (contract.h), kInvalidArgument (a key twice, no number), kNoSpace, or the log's.
  [[nodiscard]] Result<> change_at_once(TableBatch& batch);
  // What transactions over several shards have prepared here (parts.h); null: the table takes none.
  class Parts;
  class Settling;
  [[nodiscard]] Parts* parts() const noexcept { return parts_; }
  // Of clients that number their writes (docs/design/077): what became of each, and what executes one.
  class NumberedTurn;
  class Clear;  // Of all that is older than a moment.
  [[nodiscard]] SessionRecords& sessions() noexcept { return *sessions_; }
  // Whether a write of the key has to wait for one of them.
  [[nodiscard]] bool is_held(uint64_t hash) noexcept { return holding_ != nullptr && holds(hash); }
  // The owner's look, until the table is changed. kNotFound for absent and expired.
  [[nodiscard, gnu::flatten]] Result<Entry> find(const HashedKey& key);
  [[nodiscard]] Result<Entry> find(std::span<const std::byte> key) { return find(hashed(key)); }
  using Sought = TableSought;  // Of many, whose cache misses overlap: first seek() each, then find() all.
  void seek(std::span<const std::byte> key, Sought& sought) const noexcept;
  void find(std::span<Sought> many);
  // Or looks for the places of puts, and gives what each of these takes, with nothing else in between.
  [[nodiscard]] uint64_t fetch(std::span<Sought> many) noexcept;
  [[nodiscard]] Result<uint64_t> put(const Sought& sought, std::span<const std::byte> value,
                                     const PutOptions& options, uint64_t places_moved);
  // Which slot names the key's entry, expired or not: the only one that readers are led to. Nowhere: none.
  [[nodiscard]] Standing standing(const HashedKey& key) const noexcept;
  // Tells the log, if any, of an install that is made at once behind this; or what refuses it. kAccessDenied:
  // a younger stamp is in the log. REQUIRES: the buffer is complete and carries the stamp.
  [[nodiscard]] Code before_install(Offset buffer, uint64_t stamp);
  void retire(Offset buffer, uint64_t bytes);
  // From now on it is told of what leaves the table, and asked before buffers are retired; null: no receiver.
  void tell(Departures* departures) noexcept { departures_ = departures; }
  [[nodiscard]] Departures* told() const noexcept { return departures_; }
  void depart(Slot slot) noexcept {
    if (departures_ != nullptr) [[unlikely]]
      departures_->departing(slot);
  }
  [[nodiscard]] static uint64_t bucket_bytes_for(uint64_t entries) noexcept;
  // Buckets for so many entries of a log (replay.h), as far as there is memory. REQUIRES: the table is empty.
  void expect(uint64_t entries);
  // Makes the change with its own stamp, unless what stands there is as young. Returns whether anything was
  // changed. kNoSpace: nothing was. REQUIRES: no log is told (log_to).
  [[nodiscard]] Result<bool> restore(const HashedKey& key, const ChangeLog::Change& change);
  // From now on `uses` is told how slots are used, and `maker` asked for room; null: no receiver. Likewise.
  void evict_by(RoomMaker* maker, SlotUses* uses) noexcept;
  // Whether the slot still names what it named when it was looked at.
  [[nodiscard]] bool stands(const Standing& standing) const noexcept;
  // Erases an entry that stands, and tells the log, or gives what the log says without room.
  [[nodiscard]] Code evict(const Standing& standing);
  // A reader wrote down that it read the entry with this hash, if there is one.
  void was_read(uint64_t hash);
  void was_used(Offset slot_at) {
    if (uses_ != nullptr) uses_->used(slot_at);
  }
  // The slots in use of the next lines of a walk over all buckets, round and round; moves the hand.
  [[nodiscard]] std::span<const Standing> slots_at(Hand& hand, SlotRoom& room) const;
  // What a scan says of it; nothing: its time has come.
  [[nodiscard]] std::optional<TableListed> entry_in(Slot slot) const noexcept;
  [[nodiscard]] const Crowd* crowd_of(uint64_t bucket) const noexcept;
  [[nodiscard]] const Crowds* crowds() const noexcept { return crowds_.get(); }
  [[nodiscard]] uint64_t buffer_bytes(Slot slot) const noexcept { return lengths_of(slot).total_bytes(); }
  // Whose buffer this may be: no slot need name it. Nothing: its bytes are no entry's.
  [[nodiscard]] std::optional<HashedKey> key_in(Offset buffer) const noexcept;
  // Two stages to run over a batch before its operations, so that their cache misses overlap.
  void prefetch_bucket(uint64_t hash) const noexcept;
  void prefetch_buffers(const HashedKey& key) const noexcept;
  // Looks at so many lines for entries whose time has come, going round. Returns how many were removed.
  size_t sweep(uint64_t lines_max);
  // Looks at every entry: stamps, lengths, hashes, places. What contradicts first.
  [[nodiscard]] std::optional<Damage> validate();
  [[nodiscard]] const Stats& stats() const noexcept { return stats_; }

 private:
  class Search;
  class BatchTurn;
  class BatchRest;
  [[nodiscard]] Offset bucket_at(uint64_t index) const noexcept;
  [[nodiscard]] Offset bucket_of(uint64_t hash) const noexcept;
  [[nodiscard]] Offset line_behind(Offset line) const noexcept;
  [[nodiscard]] Slot slot_at(Offset at) const noexcept { return {writer_.load(at)}; }
  [[nodiscard]] Lengths lengths_of(Slot slot) const noexcept;
  [[nodiscard]] std::span<const std::byte> key_of(Slot slot) const noexcept;
  [[nodiscard]] uint64_t expiry_of(Slot slot) const noexcept;
  [[nodiscard]] RequestId identity_of(Slot slot) const noexcept;
  [[nodiscard]] bool is_expired(Slot slot) const noexcept;
  [[nodiscard]] TablePlace locate(const HashedKey& key) const noexcept;
  [[nodiscard]] bool holds(uint64_t hash) noexcept;
  // Likewise, and nothing is settled for it: of what makes room while a place is known.
  [[nodiscard]] bool is_kept(uint64_t hash) const noexcept;
  [[nodiscard]] Slot settled(Slot slot) const noexcept;
  [[nodiscard]] Code check(const TablePlace& place, const PutOptions& options) const noexcept;
  // For a buffer that the heap lacks. What goes for it may be what a condition names: then that fails here.
  [[nodiscard]] Result<Offset> make_room(uint64_t bytes, const HashedKey& key, const PutOptions& options);
  [[nodiscard]] Result<Draft> draft(const HashedKey& key, uint64_t value_bytes, const PutOptions& options,
                                    uint16_t flags = 0);
  // The version; 0: this put takes more than one pass, and nothing has changed. REQUIRES: no options.
  [[nodiscard]] uint64_t replace(const HashedKey& key, std::span<const std::byte> value,
                                 const TablePlace& place);
  [[nodiscard]] Result<uint64_t> put_at(TablePlace place, const HashedKey& key,
                                        std::span<const std::byte> value, const PutOptions& options);
  [[nodiscard]] Result<uint64_t> publish(const Draft& draft, TablePlace place);
  [[nodiscard]] bool link_line(TablePlace& place, uint64_t hash);
  void store(const Draft& draft, const TablePlace& place, uint64_t stamp);
  // The same and remove(), with what is done directly behind the slot's store: table_store.h.
  template <typename Behind>
  void store(const Draft& draft, const TablePlace& place, uint64_t stamp, Behind behind);
  template <typename Behind>
  void remove(Offset slot_at, Slot slot, Behind behind);
  [[nodiscard]] bool store_again(const Draft& draft, TablePlace place, uint64_t stamp);
  [[nodiscard]] Code room_in_log(uint64_t key_bytes, uint64_t value_bytes) const noexcept;
  [[nodiscard]] ChangeLog::Change change_in(Offset buffer, uint64_t stamp) const noexcept;
  void tell_log(Offset buffer, uint64_t stamp);
  void remove(Offset slot_at, Slot slot);
  void trim(uint64_t bucket);
  [[nodiscard]] bool is_empty(Offset line) const noexcept;
  [[nodiscard]] std::span<const Offset> lines_at(Hand& hand, std::span<Offset> room) const;
  // Of crowded buckets: table_crowds.cc.
  [[nodiscard]] TablePlace locate_in(Crowd& crowd, const HashedKey& key) const noexcept;
  void note_crowd(uint64_t bucket);
  void note_linked(uint64_t bucket, Offset line);
  void note_stored(const HashedKey& key);
  void note_removing(Offset slot_at, Slot slot);
  void note_split(uint64_t source, uint64_t target);
  void trim_crowd(uint64_t bucket, Crowd& crowd);
  void trim_rest();
  void gather_crowds(std::span<const uint64_t> buckets);
  [[nodiscard]] std::optional<Damage> validate_crowd(uint64_t bucket, uint64_t lines) const;
  void grow();
  [[nodiscard]] bool split_one();
  [[nodiscard]] bool make_room_for_bucket(uint64_t index);
  [[nodiscard]] bool copy_moving_slots(uint64_t source_index, uint64_t new_index);
  void copy_forward(uint64_t index);
  void free_chain_behind(Offset bucket);
  [[nodiscard]] Code check_directory() const noexcept;
  void finish_split();
  [[nodiscard]] Code adopt_entries(const ChangeLog::Change* last);
  [[nodiscard]] Code gather_bucket(uint64_t index, class SlotsByChunk& slots, uint64_t& lines);
  [[nodiscard]] Code adopt_gathered(SlotsByChunk& slots);
  [[nodiscard]] Code adopt_slot(Slot slot);
  [[nodiscard]] bool count_live(Slot slot);
  [[nodiscard]] bool is_behind(const HashedKey& key, uint64_t stamp) const noexcept;
  [[nodiscard]] std::optional<Draft> adopt_unnamed(const ChangeLog::Change& last);
  [[nodiscard]] Result<> redo(const ChangeLog::Change& last, const std::optional<Draft>& unnamed);
  [[nodiscard]] std::optional<Damage> validate_slot(Offset at, Slot slot, uint64_t bucket) const;

  Writer& writer_;
  Heap& heap_;
  const Clock& clock_;
  uint64_t hash_seed_;
  Offset directory_;
  uint64_t directory_words_;
  uint64_t count_;        // Of buckets; as published.
  uint64_t grow_to_ = 0;  // Split until the table has so many.
  Hand sweep_at_;
  std::vector<TableMoved> moved_;
  std::vector<Offset> forwarded_;   // Old places in overflow lines.
  std::unique_ptr<Crowds> crowds_;  // Null: no bucket was crowded yet.
  ChangeLog* log_ = nullptr;
  uint64_t logged_stamp_ = 0;   // The youngest in the log that this table has told it.
  uint64_t cleared_stamp_ = 0;  // Of the last Clear that this process has begun.
  HeldBack held_back_;
  std::unique_ptr<SessionRecords> sessions_;
  Parts* parts_ = nullptr;
  Parts* holding_ = nullptr;   // The same, while there are any.
  std::vector<Slot> pending_;  // That a recovery has found, of parts.
  Departures* departures_ = nullptr;
  RoomMaker* room_maker_ = nullptr;
  SlotUses* uses_ = nullptr;
  Stats stats_;
};

}  // namespace refract::kv
