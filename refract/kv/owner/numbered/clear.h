// SPDX-License-Identifier: Apache-2.0
// Erases all entries that are older than a moment, in bounded steps: docs/design/077-numbered-writes.md,
// section 6. Between the steps all else happens to the table; nothing of a step is kept here, so that any
// process that has the space can take the next one.
//
//   Table::Clear clear(table);
//   const uint64_t stamp = clear.begin();
//   uint64_t cursor = 0;
//   do cursor = clear.step(stamp, cursor).next; while (cursor != 0);  // And again where it waits.
//
// Threads: used only by the shard that owns the table.
#pragma once

#include <cstdint>

#include "refract/kv/owner/table/table.h"

namespace refract::kv {

class Table::Clear {
 public:
  // What a step looks at and erases, about: it ends with a bucket, or a piece of a crowded one.
  static constexpr uint64_t kLinesMax = 2048;
  static constexpr uint64_t kErasedMax = 128;

  // The table outlives this.
  explicit Clear(Table& table) noexcept : table_(table) {}

  // The moment: what is committed from now on has a higher stamp.
  [[nodiscard]] uint64_t begin();
  // Whether a stamp was given in this memory. Takes one.
  [[nodiscard]] bool was_given(uint64_t stamp);

  struct Step {
    Code code = Code::kOk;  // kReadOnly: the log cannot be written.
    uint64_t next = 0;      // Where the walk continues. 0: it is over, unless it waits.
    uint64_t erased = 0;
    bool waits = false;  // For a key that a transaction holds, or for room in the log.
  };
  // Any cursor is answered. Entries with `stamp` and younger ones stay.
  [[nodiscard]] Step step(uint64_t stamp, uint64_t cursor);

 private:
  // What is looked at in one go, and where the next begins.
  struct Piece {
    Hand hand;
    uint64_t next = 0;
  };
  [[nodiscard]] Piece piece_at(uint64_t cursor) const;
  [[nodiscard]] std::span<const Standing> slots_of(Piece piece) { return table_.slots_at(piece.hand, room_); }
  [[nodiscard]] bool is_older(Slot slot, uint64_t stamp) const noexcept;
  [[nodiscard]] bool meets_held(uint64_t stamp, uint64_t cursor);
  [[nodiscard]] bool is_any_held(uint64_t stamp, uint64_t cursor, uint64_t ended);
  [[nodiscard]] Code erase_older(const Piece& piece, uint64_t stamp, uint64_t& erased);
  [[nodiscard]] Code erase(const Standing& standing);

  Table& table_;
  SlotRoom room_;
};

}  // namespace refract::kv
