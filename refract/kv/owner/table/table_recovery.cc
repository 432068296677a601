// SPDX-License-Identifier: Apache-2.0
// What a table does after a crash, and how it is checked.
//
// A crash falls between two stores. What it can leave: a buffer that no slot names (free again, since only
// named ones are marked live, and those that a reader has pinned), a line that no chain reaches (likewise), a
// bucket behind the count with slots in it (zeroed), and after the count was published, moved slots that
// still stand in their old bucket (cleared); before or after it, slots that came forward and still stand in
// their overflow line (cleared).
#include <algorithm>
#include <array>

#include "refract/base/check.h"
#include "refract/kv/owner/numbered/session_records.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/owner/table/batch_rest.h"
#include "refract/kv/owner/table/ring_finder.h"
#include "refract/kv/owner/table/slots_by_chunk.h"
#include "refract/kv/owner/table/table.h"

namespace refract::kv {

namespace {

template <typename Visit>
void visit_slots(const Writer& writer, const Heap& heap, Offset bucket, Visit&& visit) {
  // A damaged chain may be a ring; gather_bucket finds that out, too, by marking lines.
  RingFinder ring;
  for (Offset line = bucket; line && heap.is_inside(line, kLineBytes) && !ring.was_at(line);) {
    for (uint64_t i = 0; i < kSlotsPerBucket; ++i) visit(line.plus(i * sizeof(Slot)));
    line = line_at(writer.load(line.plus(kOverflowWord * sizeof(Slot))));
  }
}

// The same word stands in the first line and behind it: no two entries share a buffer.
void finish_forwarding(Writer& writer, const Heap& heap, Offset bucket) {
  std::array<uint64_t, kSlotsPerBucket> first{};
  size_t seen = 0;
  visit_slots(writer, heap, bucket, [&](Offset at) {
    const uint64_t word = writer.load(at);
    if (seen < kSlotsPerBucket) {
      first[seen++] = word;
    } else if (word != 0 && std::ranges::find(first, word) != first.end()) {
      writer.publish(at, 0);
    }
  });
}

}  // namespace

Code Table::check_directory() const noexcept {
  const auto& header = writer_.view<SpaceHeader>({0});
  if (!heap_.is_sound()) return Code::kCorrupt;
  if (header.store_area_bytes != table_area_bytes(header.chunks_max)) return Code::kCorrupt;
  if (directory_.value != header.store_area || directory_words_ != header.chunks_max || count_ == 0) {
    return Code::kCorrupt;
  }
  const uint64_t chunks = (count_ + kBucketsPerChunk - 1) / kBucketsPerChunk;
  if (chunks > directory_words_) return Code::kCorrupt;
  for (uint64_t i = 0; i < chunks; ++i) {
    const Offset chunk{writer_.load(directory_.plus(i * 8))};
    if (!heap_.is_chunk_of(chunk, ChunkKind::kBuckets)) return Code::kCorrupt;
  }
  return Code::kOk;
}

void Table::finish_split() {
  // The bucket behind the last may have been filled before its split was published.
  const uint64_t chunk = count_ / kBucketsPerChunk;
  if (chunk < directory_words_ && writer_.load(directory_.plus(chunk * 8)) != 0) {
    writer_.zero(bucket_at(count_), kLineBytes);
  }
  if (count_ < 2) return;
  // Those that came forward with the split that was not published, or with the last one that was.
  finish_forwarding(writer_, heap_, bucket_at(forwarded_bucket(count_ + 1)));
  if (count_ > 2) finish_forwarding(writer_, heap_, bucket_at(forwarded_bucket(count_)));
  // The last published split may not have cleared all it moved: the same word stands in both buckets.
  std::vector<uint64_t> moved;
  visit_slots(writer_, heap_, bucket_at(count_ - 1), [&](Offset at) {
    if (const Slot slot = slot_at(at)) moved.push_back(slot.bits);
  });
  std::ranges::sort(moved);
  visit_slots(writer_, heap_, bucket_at(split_source(count_)), [&](Offset at) {
    const Slot slot = slot_at(at);
    if (slot && std::ranges::binary_search(moved, slot.bits)) writer_.publish(at, 0);
  });
}

Code Table::adopt_slot(Slot slot) {
  const Offset buffer = slot.buffer();
  const Lengths lengths = lengths_of(slot);
  if (!slot.names(writer_.load(buffer)) || !lengths.is_sound()) return Code::kCorrupt;
  if (lengths.is_pending()) [[unlikely]] {
    // Which buffer stays is decided when all are known.
    if (!heap_.is_inside(buffer, lengths.total_bytes())) return Code::kCorrupt;
    pending_.push_back(slot);
    return Code::kOk;
  }
  return count_live(slot) ? Code::kOk : Code::kCorrupt;
}

// False: its buffer is not one.
bool Table::count_live(Slot slot) {
  if (!heap_.mark_live(slot.buffer(), lengths_of(slot).total_bytes())) return false;
  ++stats_.entries;
  stats_.expiring_entries += slot.expires() ? 1 : 0;
  if (slot.expires()) stats_.first_expiry.forget();
  return true;
}

Code Table::adopt_gathered(SlotsByChunk& slots) {
  return slots.drain([this](Slot slot) { __builtin_prefetch(writer_.base() + slot.buffer().value); },
                     [this](Slot slot) { return adopt_slot(slot); });
}

Code Table::gather_bucket(uint64_t index, SlotsByChunk& slots, uint64_t& lines) {
  Offset line = bucket_at(index);
  while (true) {
    ++lines;
    for (uint64_t i = 0; i < kSlotsPerBucket; ++i) {
      const Slot slot = slot_at(line.plus(i * sizeof(Slot)));
      if (!slot) continue;
      if (!heap_.is_inside(slot.buffer(), sizeof(BufferHeader))) return Code::kCorrupt;
      if (slots.add(slot)) continue;
      if (const Code code = adopt_gathered(slots); code != Code::kOk) return code;
      (void)slots.add(slot);
    }
    line = {writer_.load(line.plus(kOverflowWord * sizeof(Slot)))};
    if (!line) return Code::kOk;
    // Marking a line twice fails, so a chain that loops or crosses another is found; so does what is no line.
    if (!heap_.mark_live_line(line)) return Code::kCorrupt;
    ++stats_.overflow_lines;
  }
}

Code Table::adopt_entries(const ChangeLog::Change* last) {
  // Overflow lines are few, but each is a miss of its own.
  constexpr uint64_t kAhead = 8;
  SlotsByChunk slots(directory_words_, count_ * kSlotsPerBucket);
  std::vector<uint64_t> crowded;
  for (uint64_t index = 0; index < count_; ++index) {
    if (index + 2 * kAhead < count_) __builtin_prefetch(writer_.at(bucket_at(index + 2 * kAhead)));
    if (index + kAhead < count_) {
      const Offset line{writer_.load(bucket_at(index + kAhead).plus(kOverflowWord * sizeof(Slot)))};
      if (line && heap_.is_inside(line, kLineBytes)) __builtin_prefetch(writer_.at(line));
    }
    uint64_t lines = 0;
    if (const Code code = gather_bucket(index, slots, lines); code != Code::kOk) return code;
    if (lines > kLinesWalked) crowded.push_back(index);
  }
  if (const Code code = adopt_gathered(slots); code != Code::kOk) return code;
  if (const Code code = BatchRest(*this, last).settle(); code != Code::kOk) return code;
  if (parts_ != nullptr && !parts_->mark_live()) return Code::kCorrupt;
  gather_crowds(crowded);
  return Code::kOk;
}

// A buffer that was replaced or erased before the crash, and that a reader still holds: it waits for its
// unpinning as it did before. What else a reader may have announced finds no free buffer of its length, or
// keeps one from use that is the reader's own loss.
void Table::mark_pinned(Recovery& recovery) {
  for (const Offset buffer : heap_.announced_pins()) {
    if (buffer.value % kGranuleBytes != 0 || !heap_.is_inside(buffer, sizeof(BufferHeader))) continue;
    const Lengths lengths = Lengths::from_word(writer_.load(buffer.plus(offsetof(BufferHeader, lengths))));
    if (!lengths.is_sound() || !heap_.is_inside(buffer, lengths.total_bytes())) continue;
    // False for most: a slot names them, so that they are marked already.
    if (heap_.mark_live(buffer, lengths.total_bytes()))
      recovery.held.push_back({buffer, lengths.total_bytes()});
  }
}

Result<> Table::recover(const ChangeLog::Change* last) {
  Recovery recovery;
  heap_.begin_recovery();
  if (const Result<> marked = mark_live(last, recovery); !marked) return marked;
  mark_pinned(recovery);
  heap_.end_recovery();
  return finish_recovery(last, recovery);
}

Result<> Table::mark_live(const ChangeLog::Change* last, Recovery& recovery) {
  if (const Code code = check_directory(); code != Code::kOk) return fail(code);
  stats_ = {};
  pending_.clear();
  crowds_.reset();
  if (const Code code = sessions_->mark_live(); code != Code::kOk) return fail(code);
  finish_split();
  if (const Code code = adopt_entries(last); code != Code::kOk) return fail(code);
  if (last != nullptr) recovery.unnamed = adopt_unnamed(*last);
  return {};
}

Result<> Table::finish_recovery(const ChangeLog::Change* last, Recovery& recovery) {
  for (const TableHeld& one : recovery.held) heap_.retire(one.buffer, one.bytes);
  recovery.held.clear();
  stats_.buckets = count_;
  grow_to_ = std::bit_ceil(count_);
  // An empty last line that a crash left linked is trimmed when its bucket is next erased from or split.
  if (parts_ != nullptr) parts_->adopt(pending_);
  pending_.clear();
  const bool is_change = last != nullptr && last->kind != ChangeLog::Kind::kGroup;
  sessions_->settle_open(is_change ? last->stamp : 0);
  return last != nullptr ? redo(*last, recovery.unnamed) : Result<>();
}

std::optional<Table::Damage> Table::validate_slot(Offset at, Slot slot, uint64_t bucket) const {
  const Offset buffer = slot.buffer();
  if (!heap_.is_inside(buffer, sizeof(BufferHeader))) return Damage{at, "a slot points outside the space"};
  const Lengths lengths = lengths_of(slot);
  if (!slot.names(writer_.load(buffer))) return Damage{buffer, "a buffer's stamp is not its slot's"};
  if (!lengths.is_sound() || !heap_.is_inside(buffer, lengths.total_bytes())) {
    return Damage{buffer, "a buffer's lengths are impossible"};
  }
  if (lengths.is_pending() && holding_ == nullptr) {
    return Damage{buffer, "an entry is pending, and no batch is under way"};
  }
  const uint64_t key_hash = hash(key_of(slot));
  if (Slot::fingerprint_of(key_hash) != slot.fingerprint() || bucket_index(key_hash, count_) != bucket) {
    return Damage{buffer, "an entry stands in a bucket that is not its key's"};
  }
  const bool expires = (lengths.flags & Lengths::kExpires) != 0;
  if (expires != slot.expires()) return Damage{at, "slot and buffer disagree on the time to live"};
  return std::nullopt;
}

std::optional<Table::Damage> Table::validate() {
  if (check_directory() != Code::kOk) return Damage{kRootAt, "the bucket directory is impossible"};
  uint64_t entries = 0;
  for (uint64_t index = 0; index < count_; ++index) {
    RingFinder ring;
    uint64_t lines = 0;
    for (Offset line = bucket_at(index); line; ++lines) {
      if (!heap_.is_inside(line, kLineBytes) || ring.was_at(line))
        return Damage{line, "a bucket's chain is broken"};
      for (uint64_t i = 0; i < kSlotsPerBucket; ++i) {
        const Offset at = line.plus(i * sizeof(Slot));
        const Slot slot = slot_at(at);
        if (!slot) continue;
        // A pending one that replaces nothing is not counted yet.
        entries += holding_ == nullptr || holding_->is_counted(slot) ? 1 : 0;
        if (const auto damage = validate_slot(at, slot, index)) return damage;
      }
      line = {writer_.load(line.plus(kOverflowWord * sizeof(Slot)))};
    }
    if (const auto damage = validate_crowd(index, lines)) return damage;
  }
  if (entries != stats_.entries)
    return Damage{kRootAt, "the table holds another number of entries than counted"};
  return std::nullopt;
}

}  // namespace refract::kv
