// SPDX-License-Identifier: Apache-2.0
// The key-value table's owner: the one who changes it.
//
// Readers work on the same bytes at the same time (direct_reader.h); what makes that sound is the order of
// the stores here, stated as (I1) to (I4) in layout.h. Everything goes through the space's Writer.
//
// Threads: used only by the shard that owns the space. Nothing throws; memory comes from the heap given.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/result.h"
#include "refract/kv/contract.h"
#include "refract/kv/layout.h"
#include "refract/memory/heap.h"

namespace refract::kv {

class Table {
 public:
  struct Stats {
    uint64_t entries = 0;
    uint64_t expiring_entries = 0;  // Among them, those with a time to live.
    uint64_t buckets = 0;
    uint64_t overflow_lines = 0;
    uint64_t splits = 0;
    uint64_t expired = 0;  // Removed because their time had come.
  };

  // How many bytes of the space's store area the table needs.
  [[nodiscard]] static uint64_t store_area_bytes(uint64_t chunks_max) noexcept { return chunks_max * 8; }

  // Makes the empty table in a freshly formatted space. kNoSpace: not even the first buckets fit.
  [[nodiscard]] static Result<> format(Writer& writer, Heap& heap);

  // `writer`, `heap` and `clock` outlive the table. The space holds a table (format), and recover() comes
  // first.
  Table(Writer& writer, Heap& heap, const Clock& clock);

  // Finishes what a crash interrupted and tells the heap what is in use. kCorrupt: the bytes contradict
  // themselves; nothing was changed but what an interrupted split had left.
  [[nodiscard]] Result<> recover();

  // Who routes by the hash, or fetches ahead by it, has it already: everything about one key takes both.
  struct HashedKey {
    std::span<const std::byte> bytes;
    uint64_t hash = 0;
  };
  [[nodiscard]] uint64_t hash(std::span<const std::byte> key) const noexcept;
  [[nodiscard]] HashedKey hashed(std::span<const std::byte> key) const noexcept { return {key, hash(key)}; }

  // Publishes the entry and returns its version. kExists, kVersionMismatch, kNotFound: the condition did not
  // hold. kNoSpace: nothing was changed. REQUIRES: lengths within the contract's limits.
  [[nodiscard]] Result<uint64_t> put(const HashedKey& key, std::span<const std::byte> value,
                                     const PutOptions& options);
  [[nodiscard]] Result<uint64_t> put(std::span<const std::byte> key, std::span<const std::byte> value,
                                     const PutOptions& options) {
    return put(hashed(key), value, options);
  }

  // A put in three steps, for values that arrive in pieces: nothing is visible before commit.
  struct Draft {
    Offset buffer{};
    Lengths lengths{};
    uint64_t hash = 0;
  };
  [[nodiscard]] Result<Draft> begin(const HashedKey& key, uint64_t value_bytes, const PutOptions& options);
  // Where the value belongs, for those who bring it by themselves before the commit.
  [[nodiscard]] std::byte* value_of(const Draft& draft) noexcept {
    return writer_.base() + draft.buffer.value + draft.lengths.value_at();
  }
  // REQUIRES: the piece lies within the value.
  void fill(const Draft& draft, uint64_t value_offset, std::span<const std::byte> piece);
  // kNoSpace: the draft is as it was, for another try or abandon(). After anything else it is gone.
  [[nodiscard]] Result<uint64_t> commit(const Draft& draft, const PutOptions& options);
  void abandon(const Draft& draft);

  // Returns the version that was erased. With `if_version` 0 any version is.
  [[nodiscard]] Result<uint64_t> erase(const HashedKey& key, uint64_t if_version);
  [[nodiscard]] Result<uint64_t> erase(std::span<const std::byte> key, uint64_t if_version) {
    return erase(hashed(key), if_version);
  }

  // The owner's own look: valid until the table is changed. kNotFound for absent and expired.
  struct Entry {
    uint64_t version = 0;
    Offset buffer;
    uint64_t buffer_bytes = 0;
    std::span<const std::byte> value;
    uint64_t expires_wall_ns = 0;
    RequestId request;  // Of the put that made it, if that had one.
  };
  [[nodiscard]] Result<Entry> find(const HashedKey& key);
  [[nodiscard]] Result<Entry> find(std::span<const std::byte> key) { return find(hashed(key)); }

  // Which slot names the key's entry, expired or not, for those who judge what others would store there: the
  // only one that does and that readers are led to. At nowhere: there is none.
  struct Standing {
    Offset slot_at;
    Slot slot{};
  };
  [[nodiscard]] Standing standing(const HashedKey& key) const noexcept;

  // Two stages to run over a batch before its operations, so that their cache misses overlap.
  void prefetch_bucket(uint64_t hash) const noexcept;
  void prefetch_buffers(uint64_t hash) const noexcept;

  // Looks at `buckets` buckets for entries whose time has come, going round; returns how many were removed.
  size_t sweep(uint64_t buckets);

  // Looks at every entry: stamps, lengths, hashes, places. kCorrupt with the offset of the first
  // contradiction.
  struct Damage {
    Offset at;
    const char* what = nullptr;
  };
  [[nodiscard]] std::optional<Damage> validate();

  [[nodiscard]] const Stats& stats() const noexcept { return stats_; }

 private:
  // Where a key is, or would go.
  struct Place {
    Offset slot_at;  // Nowhere: the chain is full, a line must be linked to `tail`.
    Slot slot;       // Free where the key is absent.
    Offset tail;     // The chain's last line.
  };

  [[nodiscard]] Offset bucket_at(uint64_t index) const noexcept;
  [[nodiscard]] Offset bucket_of(uint64_t hash) const noexcept {
    return bucket_at(bucket_index(hash, count_));
  }
  [[nodiscard]] Slot slot_at(Offset at) const noexcept { return {writer_.load(at)}; }
  [[nodiscard]] Lengths lengths_of(Slot slot) const noexcept;
  [[nodiscard]] std::span<const std::byte> key_of(Slot slot) const noexcept;
  [[nodiscard]] uint64_t expiry_of(Slot slot) const noexcept;
  [[nodiscard]] RequestId identity_of(Slot slot) const noexcept;
  [[nodiscard]] bool is_expired(Slot slot) const noexcept;
  [[nodiscard]] Place locate(const HashedKey& key) const noexcept;
  [[nodiscard]] Code check(const Place& place, const PutOptions& options) const noexcept;
  [[nodiscard]] Result<Draft> draft(const HashedKey& key, uint64_t value_bytes, const PutOptions& options);
  [[nodiscard]] Result<uint64_t> publish(const Draft& draft, Place place);
  void remove(Offset slot_at, Slot slot);
  void trim(Offset bucket);

  void grow();
  [[nodiscard]] bool split_one();
  [[nodiscard]] bool make_room_for_bucket(uint64_t index);
  [[nodiscard]] bool copy_moving_slots(Offset source, uint64_t new_index, std::vector<Offset>& moved);
  void free_chain_behind(Offset bucket);

  [[nodiscard]] Code check_directory() const noexcept;
  void finish_split();
  [[nodiscard]] Code adopt_bucket(uint64_t index);
  [[nodiscard]] Code adopt_slot(Slot slot);
  struct Held {
    Offset buffer;
    uint64_t bytes;
  };
  [[nodiscard]] std::vector<Held> adopt_pinned();
  [[nodiscard]] std::optional<Damage> validate_slot(Offset at, Slot slot, uint64_t bucket) const;

  Writer& writer_;
  Heap& heap_;
  const Clock& clock_;
  uint64_t hash_seed_;
  Offset directory_;
  uint64_t directory_words_;
  uint64_t count_;         // Of buckets; as published.
  uint64_t grow_to_ = 0;   // Split until the table has so many.
  uint64_t sweep_at_ = 0;  // The next bucket to sweep.
  std::vector<Offset> moved_;
  Stats stats_;
};

}  // namespace refract::kv
