// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/parts/settling.h"

#include "refract/base/check.h"
#include "refract/runtime/fault.h"

namespace refract::kv {

Offset Table::Settling::slot_of(const PendingEntry& entry) const noexcept {
  const TablePlace place = table_.locate({table_.key_of(entry.slot), entry.hash});
  REFRACT_CHECK(place.slot.bits == entry.slot.bits);
  return place.slot_at;
}

void Table::Settling::withdraw(Offset slot_at, const PendingEntry& entry) {
  if (table_.crowds_ != nullptr) [[unlikely]]
    table_.note_removing(slot_at, entry.slot);
  table_.writer_.publish(slot_at, 0);
}

void Table::Settling::apply(Offset slot_at, const PendingEntry& entry) {
  if (entry.is_erasure) {
    withdraw(slot_at, entry);
  } else {
    table_.writer_.publish(entry.slot.buffer().plus(offsetof(BufferHeader, lengths)),
                           table_.lengths_of(entry.slot).applied().word());
  }
  REFRACT_FAULT("kv.batch.between_applied");
}

void Table::Settling::account(Offset slot_at, const PendingEntry& entry) {
  Stats& stats = table_.stats_;
  const Slot slot = entry.slot;
  if (entry.is_erasure) {
    table_.retire(slot.buffer(), table_.lengths_of(slot).total_bytes());
    --stats.entries;
  } else if (slot.expires()) {
    ++stats.expiring_entries;
    stats.first_expiry.stored(table_.expiry_of(slot));
  }
  if (entry.replaced) {
    stats.expiring_entries -= entry.replaced.expires() ? 1 : 0;
    if (!entry.is_erasure) table_.was_used(slot_at);
    table_.retire(entry.replaced.buffer(), table_.lengths_of(entry.replaced).total_bytes());
  } else {
    ++stats.entries;
    if (table_.uses_ != nullptr) table_.uses_->stored(slot_at);
  }
}

void Table::Settling::tidy(uint64_t hash, bool is_gone, bool is_new) {
  if (is_gone) table_.trim(bucket_index(hash, table_.count_));
  if (is_new) table_.grow();
}

void Table::Settling::undo(Offset slot_at, const PendingEntry& entry) {
  if (entry.replaced) {
    table_.writer_.publish(slot_at, entry.replaced.bits);
    // A sweep may have passed it over meanwhile.
    if (entry.replaced.expires()) table_.stats_.first_expiry.stored(table_.expiry_of(entry.replaced));
  } else {
    withdraw(slot_at, entry);
  }
  table_.heap_.retire(entry.slot.buffer(), table_.lengths_of(entry.slot).total_bytes());
}

}  // namespace refract::kv
