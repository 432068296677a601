// SPDX-License-Identifier: Apache-2.0
// What becomes of a pending entry once it is decided: docs/design/062-pending-entries.md.
//
// Threads: the owner's.
#pragma once

#include <cstdint>

#include "refract/kv/owner/table/table.h"

namespace refract::kv {

// An entry that is pending, of a key that keeps its place until it is settled.
struct PendingEntry {
  Slot slot{};
  Slot replaced{};  // What stood there; free: nothing.
  uint64_t hash = 0;
  bool is_erasure = false;
};

class Table::Settling {
 public:
  explicit Settling(Table& table) noexcept : table_(table) {}

  // All of a transaction are applied before the first one is accounted for, which gives back what a flag may
  // still lead a reader to. Splits may have moved the slot: where it is now.
  [[nodiscard]] Offset slot_of(const PendingEntry& entry) const noexcept;
  void apply(Offset slot_at, const PendingEntry& entry);
  void account(Offset slot_at, const PendingEntry& entry);
  // Behind all: what is empty goes, and the table grows.
  void tidy(uint64_t hash, bool is_gone, bool is_new);

  // It has not happened: what stood there stands there again.
  void undo(Offset slot_at, const PendingEntry& entry);

 private:
  void withdraw(Offset slot_at, const PendingEntry& entry);

  Table& table_;
};

}  // namespace refract::kv
