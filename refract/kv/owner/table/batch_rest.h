// SPDX-License-Identifier: Apache-2.0
// What a killed owner has left: pending entries of its last batch, which have one number, and a decision; and
// those of parts of transactions over several shards, which it finds and leaves to Table::Parts.
//
// Threads: the owner's, in its recovery.
#pragma once

#include <optional>
#include <vector>

#include "refract/kv/owner/table/table.h"

namespace refract::kv {

class Table::BatchRest {
 public:
  // `last` as Table::mark_live() has it.
  BatchRest(Table& table, const ChangeLog::Change* last) noexcept : table_(table), last_(last) {}

  // Settles what was found of the batch: it has happened, or it has not, and now all of it. All is looked at
  // before anything is stored; what is then stored is one word an entry, and a word that was stored is not
  // met again by the next recovery. kCorrupt: no kill leaves this; nothing was stored. With a log the owner's
  // own batch is decided when its group is whole there, which the decision only repeats: it is stored here,
  // before anything else, where the kill fell between the two.
  [[nodiscard]] Code settle();

 private:
  [[nodiscard]] Trailer trailer_of(Slot slot) const noexcept;
  [[nodiscard]] bool is_sound(Slot slot) const noexcept;
  // Whether a kill can have left it: what it names is decided, or is the last that was begun.
  [[nodiscard]] bool is_of_its_word(const Trailer& trailer, uint64_t stamp) const noexcept;
  // What its key has in the end; free: nothing.
  [[nodiscard]] Slot outcome(Slot slot) const noexcept;
  [[nodiscard]] bool keep(Slot slot);
  void settle_own(const std::vector<Slot>& own);
  // Of the owner's own batch: whether it has happened. Nothing: no kill leaves this.
  [[nodiscard]] std::optional<bool> own_outcome(const std::vector<Slot>& own) const;
  // Whether these entries are what the log's last group has. Nothing: some are.
  [[nodiscard]] std::optional<bool> is_logged(const std::vector<Slot>& pending) const;

  Table& table_;
  const ChangeLog::Change* last_;
  bool own_has_happened_ = false;
};

}  // namespace refract::kv
