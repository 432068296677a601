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
  if (run_ || same_class_.empty() || look.slots == 0) return;
  if (!uses_.is_far_busier(same_class_.front().idleness, look.idlest)) return;
  const uint64_t per_chunk = std::max<uint64_t>(kChunkBytes / Heap::footprint(bytes), 1);
  if (parts_.table.stats().evicted - evicted_at_run_ < per_chunk) return;
  const uint64_t chunk = look.idlest_standing.slot.buffer().value / kChunkBytes;
  if (begin_run(Heap::ChunkRun{.first = chunk, .chunks = 1})) is_waited_for_ = false;
}

std::optional<Heap::ChunkRun> Eviction::run_for(uint64_t bytes) const noexcept {
  const uint64_t chunks = bytes > kSlabBytesMax ? (bytes + kChunkBytes - 1) / kChunkBytes : 1;
  // From one round to the next others have their turn.
  const uint64_t from = run_ || blocked_.empty() ? chunk_ : blocked_.back().first + 1;
  const auto run = parts_.heap.emptiest_run(chunks, from);
  // What is free already is so because the table's share of chunks is not: one more helps.
  if (run && chunks > 1 && parts_.heap.is_free(*run)) return parts_.heap.emptiest_run(1, from);
  return run;
}

bool Eviction::begin_run(const std::optional<Heap::ChunkRun>& run) {
  if (!run) return false;
  parts_.heap.withhold(*run);
  run_ = run;
  chunk_ = run->first;
  occupants_.clear();
  parts_.heap.occupants(chunk_, occupants_);
  evicted_at_run_ = parts_.table.stats().evicted;
  return true;
}

Code Eviction::empty_run(uint64_t bytes) {
  if (std::exchange(has_given_up_, false)) return Code::kNoSpace;
  if (!run_ && !begin_run(run_for(bytes))) return Code::kNoSpace;
  is_waited_for_ = true;
  step(kStepEntries);
  if (run_) return Code::kNoSpace;
  return std::exchange(has_given_up_, false) ? Code::kNoSpace : Code::kOk;
}

void Eviction::make_room_for_table() noexcept {
  if (run_ || parts_.growth.can_grow(kChunkBytes) || parts_.heap.stats().bytes_free >= kChunkBytes) return;
  if (begin_run(run_for(kChunkBytes))) is_waited_for_ = false;
}

void Eviction::step(size_t entries_max) {
  // A reader that pins from now on finds out that the slot has changed, or keeps the buffer by itself.
  (void)parts_.heap.look_at_pins();
  for (size_t done = 0; run_ && done < entries_max; ++done) {
    if (occupants_.empty()) {
      if (++chunk_ == run_->first + run_->chunks) {
        finish_run();
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
        block_run();
        break;
      case Gone::kNotNow:
        return;
    }
  }
}

// A buffer may be anything: an entry's, a draft's, which others write, or one that waits for its last reader.
Eviction::Gone Eviction::evict_occupant(Offset buffer) {
  const std::optional<Table::HashedKey> key = parts_.table.key_in(buffer);
  const bool lies_inside = buffer.value >= run_->first * kChunkBytes;
  if (!key) return lies_inside ? Gone::kBlocked : Gone::kYes;
  const Table::Standing standing = parts_.table.standing(*key);
  if (standing.slot.buffer().value != buffer.value) return lies_inside ? Gone::kBlocked : Gone::kYes;
  const uint64_t end = buffer.value + parts_.table.buffer_bytes(standing.slot);
  if (end <= run_->first * kChunkBytes) return Gone::kYes;
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

void Eviction::block_run() {
  blocked_.push_back(*run_);
  const uint64_t chunks = run_->chunks;
  run_.reset();
  const auto next = parts_.heap.emptiest_run(chunks, blocked_.back().first + 1);
  if (blocked_.size() < kBlockedMax && begin_run(next)) return;
  has_given_up_ = is_waited_for_;
  end_run();
}

void Eviction::finish_run() {
  parts_.heap.reclaim();
  // A snapshot, the log or a reader may keep what has gone.
  if (!parts_.heap.is_free(*run_)) return block_run();
  ++counters_.runs;
  end_run();
}

void Eviction::end_run() {
  if (run_) parts_.heap.hand_back(*run_);
  run_.reset();
  for (const Heap::ChunkRun& run : blocked_) parts_.heap.hand_back(run);
  blocked_.clear();
}

}  // namespace refract::kv
