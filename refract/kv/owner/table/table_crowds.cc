// SPDX-License-Identifier: Apache-2.0
// What the table does about crowded buckets: crowds.h, docs/design/041-crowded-buckets.md.
#include <algorithm>

#include "refract/kv/owner/table/table.h"

namespace refract::kv {
namespace {

// A crowd of no more lines is dissolved: not so near to where it began that a client could make and dissolve
// it with every other call.
constexpr size_t kLinesDissolved = kLinesWalked / 2;

// Empty lines that one change unlinks at most; the next one continues.
constexpr int kLinesTrimmed = 128;

}  // namespace

[[gnu::noinline, gnu::cold]] TablePlace Table::locate_in(Crowd& crowd, const HashedKey& key) const noexcept {
  TablePlace place{.slot_at = crowds_->find(crowd, key.bytes), .slot = {}, .tail = crowd.lines().back()};
  if (place.slot_at) {
    place.slot = slot_at(place.slot_at);
  } else {
    place.slot_at = crowds_->free_slot(crowd);
  }
  return place;
}

const Crowd* Table::crowd_of(uint64_t bucket) const noexcept {
  return crowds_ == nullptr ? nullptr : crowds_->of(bucket);
}

std::span<const TableStanding> Table::slots_at(Hand& hand, SlotRoom& room) const {
  std::array<Offset, kLinesPerPiece> lines;  // NOLINT(cppcoreguidelines-pro-type-member-init): written first.
  size_t count = 0;
  room.lines = 0;
  for (const Offset line : lines_at(hand, lines)) {
    ++room.lines;
    for (uint64_t i = 0; i < kSlotsPerBucket; ++i) {
      const Offset at = line.plus(i * sizeof(Slot));
      if (const Slot slot = slot_at(at)) room.slots[count++] = {.slot_at = at, .slot = slot};
    }
  }
  return std::span(room.slots).first(count);
}

std::span<const Offset> Table::lines_at(Hand& hand, std::span<Offset> room) const {
  const uint64_t bucket = hand.bucket < count_ ? hand.bucket : 0;
  size_t count = 0;
  if (const Crowd* const crowd = crowd_of(bucket)) {
    const std::span<const Offset> lines = crowd->lines();
    const size_t first = std::min<size_t>(bucket == hand.bucket ? hand.line : 0, lines.size());
    count = std::min(room.size(), lines.size() - first);
    std::ranges::copy(lines.subspan(first, count), room.begin());
    if (first + count < lines.size()) {
      hand = {.bucket = bucket, .line = first + count};
      return room.first(count);
    }
  } else {
    // No longer than that: (C1).
    for (Offset line = bucket_at(bucket); line && count < room.size(); line = line_behind(line)) {
      room[count++] = line;
    }
  }
  hand = {.bucket = bucket + 1 < count_ ? bucket + 1 : 0, .line = 0};
  return room.first(count);
}

std::optional<TableListed> Table::entry_in(Slot slot) const noexcept {
  if (holding_ != nullptr) [[unlikely]]
    slot = settled(slot);
  if (!slot || is_expired(slot)) return std::nullopt;
  return TableListed{.key = key_of(slot),
                     .version = writer_.load(slot.buffer()),
                     .value_bytes = lengths_of(slot).value_bytes};
}

// A line has been linked to the end of the bucket's chain.
void Table::note_linked(uint64_t bucket, Offset line) {
  if (crowds_ != nullptr) {
    if (Crowd* const crowd = crowds_->of(bucket)) return crowds_->linked(*crowd, line);
  }
  note_crowd(bucket);
}

// (C1) for a bucket whose chain may have become too long.
void Table::note_crowd(uint64_t bucket) {
  int lines = 0;
  for (Offset line = bucket_at(bucket); line; line = line_behind(line)) {
    if (++lines > kLinesWalked) return gather_crowds({&bucket, 1});
  }
}

void Table::gather_crowds(std::span<const uint64_t> buckets) {
  if (buckets.empty()) return;
  if (crowds_ == nullptr) crowds_ = std::make_unique<Crowds>(writer_, heap_.next_stamp());
  for (const uint64_t bucket : buckets) crowds_->gather(bucket, bucket_at(bucket));
}

// An entry that was not there has got the slot that locate() has found.
void Table::note_stored(const HashedKey& key) {
  trim_rest();
  if (Crowd* const crowd = crowds_->of(bucket_index(key.hash, count_))) crowds_->stored(*crowd, key.bytes);
}

// The slot's entry goes with the next store.
void Table::note_removing(Offset slot_at, Slot slot) {
  trim_rest();
  const HashedKey key = hashed(key_of(slot));
  if (Crowd* const crowd = crowds_->of(bucket_index(key.hash, count_))) {
    crowds_->removing(*crowd, key.bytes, slot_at);
  }
}

// What stands in `moved_` has gone over to the new bucket, in this order.
void Table::note_split(uint64_t source, uint64_t target) {
  Crowd* const crowd = crowds_->of(source);
  if (crowd == nullptr) return;
  Offset line = bucket_at(target);
  uint64_t used = 0;
  for (const TableMoved& moved : moved_) {
    if (used == kSlotsPerBucket) {
      line = line_behind(line);
      used = 0;
    }
    const Slot slot = slot_at(line.plus(used++ * sizeof(Slot)));
    crowds_->removing(*crowd, key_of(slot),
                      ChainPlace::of(moved.line, moved.from.value % kLineBytes / sizeof(Slot)));
  }
  note_crowd(target);
}

void Table::trim_crowd(uint64_t bucket, Crowd& crowd) {
  for (int trimmed = 0; crowd.lines().size() > 1 && is_empty(crowd.lines().back()); ++trimmed) {
    if (trimmed == kLinesTrimmed) return crowds_->trim_later(bucket);
    const Offset line = crowd.lines().back();
    const Offset parent = crowd.lines()[crowd.lines().size() - 2];
    writer_.publish(parent.plus(kOverflowWord * sizeof(Slot)), 0);
    heap_.release_line(line);
    --stats_.overflow_lines;
    Crowds::trimmed(crowd);
  }
  if (crowd.lines().size() <= kLinesDissolved) crowds_->dissolve(bucket);
}

// Continues where a change has left empty lines.
void Table::trim_rest() {
  const std::optional<uint64_t> bucket = crowds_->take_untrimmed();
  if (!bucket) return;
  if (Crowd* const crowd = crowds_->of(*bucket)) trim_crowd(*bucket, *crowd);
}

std::optional<Table::Damage> Table::validate_crowd(uint64_t bucket, uint64_t lines) const {
  const Offset at = bucket_at(bucket);
  const Crowd* const crowd = crowd_of(bucket);
  if (crowd == nullptr) {
    if (lines <= kLinesWalked) return std::nullopt;
    return Damage{at, "a bucket is crowded, and its owner does not know"};
  }
  if (crowd->lines().size() != lines) return Damage{at, "a crowd has another chain than its bucket"};
  Offset line = at;
  for (const Offset known : crowd->lines()) {
    if (known != line) return Damage{line, "a crowd has another line than its bucket"};
    for (uint64_t i = 0; i < kSlotsPerBucket; ++i) {
      const Slot slot = slot_at(line.plus(i * sizeof(Slot)));
      if (!slot) continue;
      if (crowds_->find(*crowd, key_of(slot)) != line.plus(i * sizeof(Slot))) {
        return Damage{line, "a crowd's entry is not in the index"};
      }
    }
    line = line_behind(line);
  }
  return std::nullopt;
}

}  // namespace refract::kv
