// SPDX-License-Identifier: Apache-2.0
// How a slot is stored and cleared, each in two halves: up to the slot's store, which is the moment, and what
// follows from it. Between them a numbered write has its mark (docs/design/077-numbered-writes.md), and all
// others have nothing. Inlined where they are called: they are on the path of all puts.
#pragma once

#include "refract/kv/owner/table/table.h"
#include "refract/runtime/fault.h"

namespace refract::kv {

// The buffer is complete: its stamp has been stored.
template <typename Behind>
[[gnu::always_inline]] inline void Table::store(const Draft& draft, const TablePlace& place, uint64_t stamp,
                                                Behind behind) {
  const bool expires = (draft.lengths.flags & Lengths::kExpires) != 0;
  const Slot slot = Slot::of({.hash = draft.hash,
                              .stamp = stamp,
                              .bytes = draft.lengths.total_bytes(),
                              .expires = expires,
                              .buffer = draft.buffer});
  if (place.slot) depart(place.slot);
  REFRACT_FAULT("kv.put.before_publish");
  writer_.publish(place.slot_at, slot.bits);
  behind();
  REFRACT_FAULT("kv.put.after_publish");
  stats_.expiring_entries += expires ? 1 : 0;
  if (expires) stats_.first_expiry.stored(expiry_of(slot));
  if (place.slot) {
    stats_.expiring_entries -= place.slot.expires() ? 1 : 0;
    was_used(place.slot_at);
    retire(place.slot.buffer(), lengths_of(place.slot).total_bytes());
  } else {
    ++stats_.entries;
    if (crowds_ != nullptr) [[unlikely]]
      note_stored({key_of(slot), draft.hash});
    if (uses_ != nullptr) uses_->stored(place.slot_at);
    grow();
  }
}

template <typename Behind>
[[gnu::always_inline]] inline void Table::remove(Offset slot_at, Slot slot, Behind behind) {
  depart(slot);
  if (crowds_ != nullptr) [[unlikely]]
    note_removing(slot_at, slot);
  writer_.publish(slot_at, 0);
  behind();
  REFRACT_FAULT("kv.erase.before_retire");
  retire(slot.buffer(), lengths_of(slot).total_bytes());
  --stats_.entries;
  stats_.expiring_entries -= slot.expires() ? 1 : 0;
}

}  // namespace refract::kv
