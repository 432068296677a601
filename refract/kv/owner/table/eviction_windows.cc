// SPDX-License-Identifier: Apache-2.0
// How memory changes between classes: chunks are emptied of whatever lies in them.
#include <algorithm>
#include <utility>

#include "refract/base/units.h"
#include "refract/kv/owner/table/eviction.h"

namespace refract::kv {
// Where the idlest of all are much idler than the idlest that fit, a chunk changes hands: else a class that
// has become busy would evict its own for ever. Not before as many entries have gone as lie in a chunk, so
// that a class which has just got one fills it first.
void Eviction::look_for_other_class(const Look& look, uint64_t bytes) {
  if (window_ || same_class_.empty() || look.slots == 0) return;
  if (!uses_.is_far_busier(same_class_.front().idleness, look.idlest)) return;
  const uint64_t per_chunk = std::max<uint64_t>(kChunkBytes / Heap::footprint(bytes), 1);
  if (parts_.table.stats().evicted - evicted_at_window_ < per_chunk) return;
  const uint64_t chunk = look.idlest_standing.slot.buffer().value / kChunkBytes;
  if (begin_window(Heap::Window{.first = chunk, .chunks = 1})) is_waited_for_ = false;
}

std::optional<Heap::Window> Eviction::window_for(uint64_t bytes) const noexcept {
  const uint64_t chunks = bytes > kSlabBytesMax ? (bytes + kChunkBytes - 1) / kChunkBytes : 1;
  // From one round to the next others have their turn.
  const uint64_t from = window_ || blocked_.empty() ? chunk_ : blocked_.back().first + 1;
  const auto window = parts_.heap.emptiest_window(chunks, from);
  // What is free already is so because the table's share of chunks is not: one more helps.
  if (window && chunks > 1 && parts_.heap.is_free(*window)) return parts_.heap.emptiest_window(1, from);
  return window;
}

bool Eviction::begin_window(const std::optional<Heap::Window>& window) {
  if (!window) return false;
  parts_.heap.withhold(*window);
  window_ = window;
  chunk_ = window->first;
  occupants_.clear();
  parts_.heap.occupants(chunk_, occupants_);
  evicted_at_window_ = parts_.table.stats().evicted;
  return true;
}

Code Eviction::empty_window(uint64_t bytes) {
  if (std::exchange(has_given_up_, false)) return Code::kNoSpace;
  if (!window_ && !begin_window(window_for(bytes))) return Code::kNoSpace;
  is_waited_for_ = true;
  step(kStepEntries);
  if (window_) return Code::kNoSpace;
  return std::exchange(has_given_up_, false) ? Code::kNoSpace : Code::kOk;
}

void Eviction::make_room_for_table() noexcept {
  if (window_ || parts_.growth.can_grow(kChunkBytes) || parts_.heap.stats().bytes_free >= kChunkBytes) return;
  if (begin_window(window_for(kChunkBytes))) is_waited_for_ = false;
}

void Eviction::step(size_t entries_max) {
  // A reader that pins from now on finds out that the slot has changed, or keeps the buffer by itself.
  (void)parts_.heap.look_at_pins();
  for (size_t done = 0; window_ && done < entries_max; ++done) {
    if (occupants_.empty()) {
      if (++chunk_ == window_->first + window_->chunks) {
        finish_window();
      } else {
        // What reaches from one chunk into the next has gone by now.
        parts_.heap.reclaim();
        parts_.heap.occupants(chunk_, occupants_);
      }
      continue;
    }
    switch (evict_occupant(occupants_.back())) {
      case Gone::kYes:
        occupants_.pop_back();
        break;
      case Gone::kBlocked:
        block_window();
        break;
      case Gone::kNotNow:
        return;
    }
  }
}

// A buffer may be anything: an entry's, a draft's, which others write, or one that waits for its last reader.
Eviction::Gone Eviction::evict_occupant(Offset buffer) {
  const std::optional<Table::HashedKey> key = parts_.table.key_in(buffer);
  const bool lies_inside = buffer.value >= window_->first * kChunkBytes;
  if (!key) return lies_inside ? Gone::kBlocked : Gone::kYes;
  const Table::Standing standing = parts_.table.standing(*key);
  if (standing.slot.buffer().value != buffer.value) return lies_inside ? Gone::kBlocked : Gone::kYes;
  const uint64_t end = buffer.value + parts_.table.buffer_bytes(standing.slot);
  if (end <= window_->first * kChunkBytes) return Gone::kYes;
  if (parts_.heap.pins_seen().contains(buffer)) {
    ++counters_.spared;
    return Gone::kBlocked;
  }
  switch (parts_.table.evict(standing)) {
    case Code::kOk:
      return Gone::kYes;
    case Code::kOverloaded:
      return Gone::kNotNow;
    default:
      return Gone::kBlocked;
  }
}

void Eviction::block_window() {
  blocked_.push_back(*window_);
  const uint64_t chunks = window_->chunks;
  window_.reset();
  const auto next = parts_.heap.emptiest_window(chunks, blocked_.back().first + 1);
  if (blocked_.size() < kBlockedMax && begin_window(next)) return;
  has_given_up_ = is_waited_for_;
  end_window();
}

void Eviction::finish_window() {
  parts_.heap.reclaim();
  // A snapshot, the log or a reader may keep what has gone.
  if (!parts_.heap.is_free(*window_)) return block_window();
  ++counters_.windows;
  end_window();
}

void Eviction::end_window() {
  if (window_) parts_.heap.hand_back(*window_);
  window_.reset();
  for (const Heap::Window& window : blocked_) parts_.heap.hand_back(window);
  blocked_.clear();
}

}  // namespace refract::kv
