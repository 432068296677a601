// SPDX-License-Identifier: Apache-2.0
// What a table says of itself and of its entries: Table has these under the names without the prefix.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "refract/base/result.h"
#include "refract/base/units.h"
#include "refract/kv/layout/contract.h"
#include "refract/kv/layout/layout.h"
#include "refract/kv/layout/scan_cursor.h"

namespace refract::kv {

// When a sweep first has something to find: no entry's time comes before ns(), in the clock's wall_ns(). It
// may be too early, where the entry it belongs to has gone, and a round of sweeps makes it right.
class FirstExpiry {
 public:
  // kForever_ns: no entry expires.
  [[nodiscard]] uint64_t ns() const noexcept { return first_ns_; }
  // An entry with this time was stored.
  void stored(uint64_t wall_ns) noexcept {
    first_ns_ = std::min(first_ns_, wall_ns);
    left(wall_ns);
  }
  // A sweep has left this one where it is.
  void left(uint64_t wall_ns) noexcept { first_of_round_ns_ = std::min(first_of_round_ns_, wall_ns); }
  // Every bucket was swept since the last call; what a split moved meanwhile went where the round had yet to
  // come.
  void end_round() noexcept { first_ns_ = std::exchange(first_of_round_ns_, kForever_ns); }
  // Entries were found whose times are not known yet.
  void forget() noexcept { first_ns_ = 0; }

 private:
  uint64_t first_ns_ = kForever_ns;
  uint64_t first_of_round_ns_ = kForever_ns;  // Of what this round has left, and of what came since it began.
};

struct TableStats {
  uint64_t entries = 0;
  uint64_t expiring_entries = 0;  // Among them, those with a time to live.
  uint64_t buckets = 0;
  uint64_t overflow_lines = 0;
  uint64_t splits = 0;
  uint64_t expired = 0;  // Removed because their time had come.
  uint64_t evicted = 0;  // Removed so that others had room.
  uint64_t evicted_bytes = 0;
  FirstExpiry first_expiry;

  // Where this changes, places that were looked up before are so no more.
  [[nodiscard]] uint64_t removed() const noexcept { return expired + evicted; }
  // The same of places that have an entry, while puts are all that is done.
  [[nodiscard]] uint64_t places_moved() const noexcept { return splits + removed(); }
};

// With which the table need not grow for so many entries.
[[nodiscard]] uint64_t buckets_for(uint64_t entries) noexcept;

// A caller that routes by the hash, or fetches ahead by it, has it already: everything about one key takes
// both.
struct TableKey {
  std::span<const std::byte> bytes;
  uint64_t hash = 0;
};

// Which slot names a key's entry. At nowhere: there is none.
struct TableStanding {
  Offset slot_at;
  Slot slot{};
};

// Where a key is, or would go.
struct TablePlace {
  Offset slot_at;  // Nowhere: the chain is full, a line must be linked to `tail`.
  Slot slot;       // Free where the key is absent.
  Offset tail;     // The chain's last line.
};

// A walk over all buckets in small steps: the next is the line with this number of this bucket.
struct TableHand {
  uint64_t bucket = 0;
  uint64_t line = 0;
};

// Room for what Table::slots_at() finds, in so many lines.
struct TableSlotRoom {
  std::array<TableStanding, kLinesPerPiece * kSlotsPerBucket> slots;
  uint64_t lines = 0;
};

// A slot that a split has moved: its old place, and the number of that line in its chain.
struct TableMoved {
  Offset from;
  uint64_t line = 0;
};

// A buffer that no slot names and that a reader still holds.
struct TableHeld {
  Offset buffer;
  uint64_t bytes = 0;
};

// A value on its way into the table: its buffer, which no other caller sees.
struct TableDraft {
  Offset buffer{};
  Lengths lengths{};
  uint64_t hash = 0;
};

// As the owner sees it.
struct TableEntry {
  uint64_t version = 0;
  Offset buffer;
  uint64_t buffer_bytes = 0;
  std::span<const std::byte> value;
  uint64_t expires_wall_ns = 0;
  RequestId request;  // Of the put that made it, if that had one.
};

// One of many keys that are looked for at once, and what was found.
struct TableSought {
  TableKey key;
  Offset line;     // Whose slots are looked at next.
  Offset slot_at;  // The first that may name the key's entry, and what it says; free: none is known.
  Slot slot;
  Code code = Code::kOk;  // kNotFound for absent and expired.
  uint64_t version = 0;
  std::span<const std::byte> value;
  uint64_t expires_wall_ns = 0;
};

// As a scan lists it.
struct TableListed {
  std::span<const std::byte> key;
  uint64_t version = 0;
  uint64_t value_bytes = 0;
};

// Between the steps of a table's recovery.
struct TableRecovery {
  std::optional<TableDraft> unnamed;  // Of the log's last change, where no slot names it.
  std::vector<TableHeld> held;        // By readers, and by no slot.
};

struct TableDamage {
  Offset at;
  const char* what = nullptr;
};

// As a table names them.
struct TableNames {
  using Stats = TableStats;
  using Recovery = TableRecovery;
  using HashedKey = TableKey;
  using Draft = TableDraft;
  using Entry = TableEntry;
  using Standing = TableStanding;
  using Hand = TableHand;
  using SlotRoom = TableSlotRoom;
  using Damage = TableDamage;
};

}  // namespace refract::kv
