// SPDX-License-Identifier: Apache-2.0
// A slot that a reader has seen, and what can be said of the buffer that it names.
//
// Threads: any; it is the reader's own.
#pragma once

#include <cstdint>
#include <span>

#include "refract/kv/direct/table_view.h"
#include "refract/kv/layout/layout.h"
#include "refract/memory/remote_visible.h"

namespace refract::kv {

struct SlotLead {
  Offset slot_at;
  Slot slot;

  // What was read since the stamp was seen is one content, published at a moment since then. In this order:
  // TableView::is_current().
  template <typename Memory>
  [[nodiscard, gnu::always_inline]] bool still_holds(Memory& memory, uint64_t stamp) const noexcept {
    load_load_fence();
    return memory.observe(slot_at) == slot.bits && memory.observe(slot.buffer()) == stamp;
  }

  // Whether the buffer is that of an entry of the key with a long value, without an expiry and an identity,
  // and where that value is. `seen`: its first two words, read in this order. What the caller holds of the
  // buffer it has held since before. Not inlined: its registers would cost the short values.
  template <typename Memory>
  [[nodiscard]] bool locate_long(Memory& memory, const BufferHeader& seen, std::span<const std::byte> key,
                                 Found& found, Offset& value) const noexcept {
    const Lengths lengths = Lengths::from_word(seen.lengths);
    if ((lengths.flags & ~Lengths::kBatch) != 0 || lengths.key_bytes != key.size() || !lengths.is_sound())
      return false;
    const uint64_t end = memory.bytes();
    const uint64_t bytes = lengths.total_bytes();
    if (bytes > end || slot.buffer().value > end - bytes) return false;
    if (!slot.names(seen.stamp) || !memory.equals(slot.buffer().plus(lengths.key_at()), key)) return false;
    if (!still_holds(memory, seen.stamp)) return false;
    found = {.code = Code::kOk, .version = seen.stamp, .value_bytes = lengths.value_bytes};
    value = slot.buffer().plus(lengths.value_at());
    return true;
  }
};

}  // namespace refract::kv
