// SPDX-License-Identifier: Apache-2.0
// What of the table is about eviction: entries that leave so that others have room, and what tells which.
#include <algorithm>
#include <bit>

#include "refract/kv/layout/slot_match.h"
#include "refract/kv/owner/table/table.h"

namespace refract::kv {
namespace {

// What one put looks through for expired entries where it may evict others. Without that all of the table is
// looked through, before a client is told that there is no space.
constexpr uint64_t kSweptLines = 256;

// A snapshot and the log may keep what was evicted for a while; after so many rounds without success they are
// asked to release it.
constexpr int kAttempts = 4;

}  // namespace

void Table::evict_by(RoomMaker* maker, SlotUses* uses) noexcept {
  room_maker_ = maker;
  uses_ = uses;
  if (uses_ != nullptr) uses_->count_by(&stats_.entries);
}

// Out of the way of the puts that need none of this.
[[gnu::cold]] Result<Offset> Table::make_room(uint64_t bytes, const HashedKey& key,
                                              const PutOptions& options) {
  const uint64_t removed_before = stats_.removed();
  std::optional<Offset> buffer;
  const uint64_t all = count_ + stats_.overflow_lines;
  const uint64_t swept = room_maker_ == nullptr ? all : std::min(all, kSweptLines);
  if (stats_.expiring_entries > 0 && sweep(swept) > 0) buffer = heap_.allocate(bytes);
  Code code = Code::kNoSpace;
  for (int attempt = 0; !buffer && room_maker_ != nullptr && attempt < kAttempts; ++attempt) {
    code = room_maker_->make_room(bytes, attempt);
    if (code != Code::kOk) break;
    buffer = heap_.allocate(bytes);
  }
  while (!buffer && departures_ != nullptr && departures_->gives_way()) buffer = heap_.allocate(bytes);
  if (!buffer) return fail(code == Code::kOk ? Code::kNoSpace : code);
  if (stats_.removed() == removed_before) return *buffer;
  code = check(locate(key), options);
  if (code == Code::kOk) return *buffer;
  heap_.release(*buffer, bytes);
  return fail(code);
}

bool Table::stands(const Standing& standing) const noexcept {
  return slot_at(standing.slot_at).bits == standing.slot.bits;
}

Code Table::evict(const Standing& standing) {
  const Slot slot = standing.slot;
  const HashedKey key = hashed(key_of(slot));
  if (is_kept(key.hash)) return Code::kConflict;
  if (is_expired(slot)) {
    ++stats_.expired;
  } else {
    if (const Code code = room_in_log(key.bytes.size(), 0); code != Code::kOk) return code;
    if (log_ != nullptr) [[unlikely]] {
      logged_stamp_ = heap_.next_stamp();
      log_->append({.kind = ChangeLog::Kind::kErase, .stamp = logged_stamp_, .key = key.bytes});
    }
    ++stats_.evicted;
    stats_.evicted_bytes += Heap::footprint(lengths_of(slot).total_bytes());
  }
  remove(standing.slot_at, slot);
  trim(bucket_index(key.hash, count_));
  return Code::kOk;
}

std::optional<Table::HashedKey> Table::key_in(Offset buffer) const noexcept {
  if (!heap_.is_inside(buffer, sizeof(BufferHeader))) return std::nullopt;
  const Lengths lengths = Lengths::from_word(writer_.load(buffer.plus(offsetof(BufferHeader, lengths))));
  if (!lengths.is_sound() || !heap_.is_inside(buffer, lengths.total_bytes())) return std::nullopt;
  return hashed({writer_.at(buffer.plus(lengths.key_at())), lengths.key_bytes});
}

void Table::was_read(uint64_t hash) {
  if (uses_ == nullptr) return;
  const uint8_t fingerprint = Slot::fingerprint_of(hash);
  // Readers do not look further, whatever they write down.
  int lines = 0;
  for (Offset line = bucket_of(hash); line && lines < kLinesWalked; line = line_behind(line), ++lines) {
    for (uint32_t hits = match_slots(writer_.at(line), fingerprint); hits != 0; hits &= hits - 1) {
      const Offset at = line.plus(static_cast<uint64_t>(std::countr_zero(hits)) * sizeof(Slot));
      if (slot_at(at)) uses_->sampled(at);
    }
  }
}

}  // namespace refract::kv
