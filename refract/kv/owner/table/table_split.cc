// SPDX-License-Identifier: Apache-2.0
// How the table grows while it is read: one bucket at a time, entries in both places before they leave the
// old one.
//
// What a split leaves in overflow lines comes forward with the next split (docs/design/009-table.md).
#include "refract/base/check.h"
#include "refract/kv/owner/table/table.h"
#include "refract/runtime/fault.h"

namespace refract::kv {

bool Table::make_room_for_bucket(uint64_t index) {
  const Offset word = directory_.plus(index / kBucketsPerChunk * 8);
  if (index / kBucketsPerChunk >= directory_words_) return false;
  if (writer_.load(word) != 0) return true;
  const auto chunk = heap_.allocate_bucket_chunk();
  if (!chunk) return false;
  writer_.publish(word, chunk->value);
  return true;
}

// Copies the slots that belong to the new bucket; no reader looks there yet. False, and nothing is left
// behind, where there is no room for a line.
bool Table::copy_moving_slots(uint64_t source_index, uint64_t new_index) {
  moved_.clear();
  const Offset target = bucket_at(new_index);
  const Crowd* const crowd = crowd_of(source_index);
  Offset line = target;
  uint64_t used = 0;
  uint64_t number = 0;
  for (Offset source = bucket_at(source_index); source; source = line_behind(source), ++number) {
    if (crowd != nullptr) [[unlikely]]
      crowds_->look_ahead(crowd->lines(), number);
    for (uint64_t i = 0; i < kSlotsPerBucket; ++i) {
      const Offset at = source.plus(i * sizeof(Slot));
      const Slot slot = slot_at(at);
      if (!slot || bucket_index(hash(key_of(slot)), count_ + 1) != new_index) continue;
      if (used == kSlotsPerBucket) {
        const auto next = heap_.allocate_line();
        if (!next) {
          free_chain_behind(target);
          writer_.zero(target, kLineBytes);
          return false;
        }
        ++stats_.overflow_lines;
        writer_.publish(line.plus(kOverflowWord * sizeof(Slot)), next->value);
        line = *next;
        used = 0;
      }
      if (uses_ != nullptr) uses_->moved(at, line.plus(used * sizeof(Slot)));
      writer_.publish(line.plus(used++ * sizeof(Slot)), slot.bits);
      moved_.push_back({.from = at, .line = number});
    }
  }
  return true;
}

// Copies as many slots of the bucket's overflow lines into its first line as have room there.
void Table::copy_forward(uint64_t index) {
  forwarded_.clear();
  const Offset first = bucket_at(index);
  Offset line = line_behind(first);
  if (!line) [[likely]]
    return;
  if (crowd_of(index) != nullptr) return;
  uint64_t to = 0;
  for (; line; line = line_behind(line)) {
    for (uint64_t i = 0; i < kSlotsPerBucket; ++i) {
      const Offset at = line.plus(i * sizeof(Slot));
      const Slot slot = slot_at(at);
      if (!slot) continue;
      while (to < kSlotsPerBucket && slot_at(first.plus(to * sizeof(Slot)))) ++to;
      if (to == kSlotsPerBucket) return;
      const Offset target = first.plus(to * sizeof(Slot));
      if (uses_ != nullptr) uses_->moved(at, target);
      writer_.publish(target, slot.bits);
      forwarded_.push_back(at);
    }
  }
}

void Table::free_chain_behind(Offset bucket) {
  Offset line{writer_.load(bucket.plus(kOverflowWord * sizeof(Slot)))};
  while (line) {
    const Offset next{writer_.load(line.plus(kOverflowWord * sizeof(Slot)))};
    heap_.release_line(line);
    --stats_.overflow_lines;
    line = next;
  }
}

bool Table::split_one() {
  const uint64_t new_index = count_;
  if (!make_room_for_bucket(new_index)) return false;
  const uint64_t source = split_source(count_ + 1);
  if (!copy_moving_slots(source, new_index)) return false;
  const uint64_t before = forwarded_bucket(count_ + 1);
  copy_forward(before);
  // (I3): both places, then the count, then the old slots. A reader that misses in the old bucket, or behind
  // the first line of the other one, sees the new count.
  REFRACT_FAULT("kv.split.before_count");
  writer_.publish(kBucketCountAt, ++count_);
  REFRACT_FAULT("kv.split.after_count");
  for (const TableMoved& moved : moved_) writer_.publish(moved.from, 0);
  for (const Offset from : forwarded_) writer_.publish(from, 0);
  if (crowds_ != nullptr) [[unlikely]]
    note_split(source, new_index);
  trim(source);
  if (!forwarded_.empty()) trim(before);
  ++stats_.splits;
  stats_.buckets = count_;
  // The next split reads the keys of its bucket: let their misses pass meanwhile.
  if (count_ < grow_to_) {
    const Offset next = bucket_at(split_source(count_ + 1));
    for (uint64_t i = 0; i < kSlotsPerBucket; ++i) {
      const Slot slot = slot_at(next.plus(i * sizeof(Slot)));
      if (slot) __builtin_prefetch(writer_.at(slot.buffer()));
    }
  }
  return true;
}

}  // namespace refract::kv
