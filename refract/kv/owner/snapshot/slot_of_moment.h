// SPDX-License-Identifier: Apache-2.0
// What a slot has of a moment that a snapshot keeps, where transactions over several shards have entries
// pending from turn to turn (docs/design/067).
//
// Threads: the snapshot's reader, while the owner changes the table.
#pragma once

#include <cstdint>
#include <optional>

#include "refract/kv/direct/table_view.h"
#include "refract/kv/layout/decision_words.h"
#include "refract/kv/layout/layout.h"
#include "refract/memory/remote_visible.h"

namespace refract::kv {

// The slot's word; of an entry that such a transaction has pending, the word of what it replaces (0:
// nothing). While the flag is set that has not departed, and it is handed over before the flag is cleared: so
// either it is given here, or the queue, looked at afterwards, has it. Nothing: the slot changes all the
// time; again.
template <typename Memory>
[[nodiscard]] std::optional<uint64_t> slot_of_moment(TableView<Memory>& view, Offset at,
                                                     bool has_parts) noexcept {
  Memory& memory = view.memory();
  uint64_t word = memory.observe(at);
  if (!has_parts) [[likely]]
    return word;
  for (int attempt = 0; word != 0 && attempt < TableView<Memory>::kAttempts; ++attempt) {
    const Offset buffer = Slot{word}.buffer();
    if (!view.is_inside(buffer, sizeof(BufferHeader))) return word;
    const Offset lengths_at = buffer.plus(offsetof(BufferHeader, lengths));
    const uint64_t stamp = memory.observe(buffer);
    const Lengths lengths = Lengths::from_word(memory.observe(lengths_at));
    const bool is_pending = Slot{word}.names(stamp) && lengths.is_sound() && lengths.is_pending() &&
                            view.is_inside(buffer, lengths.total_bytes());
    uint64_t given = word;
    if (is_pending) {
      const Offset trailer = buffer.plus(lengths.trailer_at());
      const DecisionPlace place{memory.observe(trailer.plus(offsetof(Trailer, decision_at)))};
      // A batch of one shard hands over what it replaces before it is pending.
      if (place.is_word()) given = memory.observe(trailer.plus(offsetof(Trailer, replaced)));
    }
    load_load_fence();
    const bool is_same = memory.observe(lengths_at) == lengths.word() && memory.observe(buffer) == stamp;
    const uint64_t now = memory.observe(at);
    if (now == word && (is_same || !is_pending)) return given;
    word = now;
  }
  return word == 0 ? std::optional<uint64_t>(0) : std::nullopt;
}

}  // namespace refract::kv
