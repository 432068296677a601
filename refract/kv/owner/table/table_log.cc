// SPDX-License-Identifier: Apache-2.0
// What the table tells a log, and what it takes from one: docs/design/025-log.md.
#include <algorithm>
#include <bit>

#include "refract/base/check.h"
#include "refract/kv/owner/numbered/session_records.h"
#include "refract/kv/owner/table/table_store.h"

namespace refract::kv {

// What the entry in this buffer says.
ChangeLog::Change Table::change_in(Offset buffer, uint64_t stamp) const noexcept {
  const Lengths lengths = Lengths::from_word(writer_.load(buffer.plus(offsetof(BufferHeader, lengths))));
  ChangeLog::Change change{.stamp = stamp,
                           .key = {writer_.at(buffer.plus(lengths.key_at())), lengths.key_bytes},
                           .value = {writer_.at(buffer.plus(lengths.value_at())), lengths.value_bytes},
                           .buffer = buffer};
  if ((lengths.flags & Lengths::kTombstone) != 0) change.kind = ChangeLog::Kind::kErase;
  if ((lengths.flags & Lengths::kExpires) != 0) change.expires_wall_ns = writer_.load(buffer.plus(kExpiryAt));
  if ((lengths.flags & Lengths::kIdentified) != 0) {
    const Offset at = buffer.plus(lengths.identity_at());
    change.request = {.client = writer_.load(at), .sequence = writer_.load(at.plus(sizeof(uint64_t)))};
  }
  return change;
}

void Table::tell_log(Offset buffer, uint64_t stamp) {
  logged_stamp_ = stamp;
  log_->append(change_in(buffer, stamp));
}

Code Table::before_install(Offset buffer, uint64_t stamp) {
  if (holding_ != nullptr && is_kept(key_in(buffer).value_or(HashedKey{}).hash)) return Code::kOverloaded;
  // Else a repeated step of a clear could erase what was written behind its end.
  if (stamp < cleared_stamp_) return Code::kAccessDenied;
  if (log_ == nullptr) return Code::kOk;
  // A chain takes its stamp when it allocates. One that allocates twice could install the younger buffer
  // first, and the log's records would no longer stand in the order of their stamps.
  if (stamp <= logged_stamp_) return Code::kAccessDenied;
  const Lengths lengths = Lengths::from_word(writer_.load(buffer.plus(offsetof(BufferHeader, lengths))));
  if (const Code code = log_->room_for(lengths.key_bytes, lengths.value_bytes); code != Code::kOk)
    return code;
  tell_log(buffer, stamp);
  return Code::kOk;
}

size_t Table::release_held_back() {
  return held_back_.release(log_ == nullptr ? UINT64_MAX : log_->confirmed());
}

uint64_t Table::bucket_bytes_for(uint64_t entries) noexcept {
  return buckets_for(entries) * kLineBytes;
}

void Table::expect(uint64_t entries) {
  REFRACT_CHECK(stats_.entries == 0);
  const uint64_t wanted = buckets_for(entries);
  while (count_ < wanted) {
    const uint64_t last = 2 * count_ - 1;
    // An empty table of any size is one: nothing has to move.
    for (uint64_t bucket = count_; bucket < last; bucket += kBucketsPerChunk) {
      if (!make_room_for_bucket(bucket)) return;
    }
    if (!make_room_for_bucket(last)) return;
    count_ *= 2;
    writer_.publish(kBucketCountAt, count_);
    stats_.buckets = grow_to_ = count_;
  }
}

// Whether the table may lack a change with this stamp.
bool Table::is_behind(const HashedKey& key, uint64_t stamp) const noexcept {
  const TablePlace place = locate(key);
  return !place.slot || writer_.load(place.slot.buffer()) < stamp;
}

Result<bool> Table::restore(const HashedKey& key, const ChangeLog::Change& change) {
  TablePlace place = locate(key);
  if (place.slot && writer_.load(place.slot.buffer()) >= change.stamp) return false;
  const uint64_t expires_wall_ns = change.expires_wall_ns;
  const bool is_gone = expires_wall_ns != 0 && clock_.wall_ns() >= expires_wall_ns;
  if (change.kind == ChangeLog::Kind::kErase || is_gone) {
    // What had expired when it was replaced is gone as well.
    if (!place.slot) return false;
    remove(place.slot_at, place.slot, [this] { sessions_->mark_open(); });
    trim(bucket_index(key.hash, count_));
    return true;
  }
  const uint64_t removed_before = stats_.removed();
  const Result<Draft> made =
      draft(key, change.value.size(), {.expires_wall_ns = expires_wall_ns, .request = change.request});
  if (!made) return fail(made.error());
  if (stats_.removed() != removed_before) place = locate(key);
  fill(*made, 0, change.value);
  if (!store_again(*made, place, change.stamp)) {
    abandon(*made);
    return fail(Code::kNoSpace);
  }
  return true;
}

// False: there is no line for it. The mark of a numbered write (docs/design/077) comes directly behind the
// slot: in front of it a second kill, which loses the log's ring, would leave a record of what is not there;
// behind a split the slot that is compared would be one that the split has cleared.
bool Table::store_again(const Draft& draft, TablePlace place, uint64_t stamp) {
  // The one that its record names.
  if (const auto* const open = sessions_->open(); open != nullptr && !place.slot) {
    place.slot_at = open->state.word_at();
  }
  if (!place.slot_at && !link_line(place, draft.hash)) return false;
  writer_.publish(draft.buffer, stamp);
  store(draft, place, stamp, [this] { sessions_->mark_open(); });
  return true;
}

// The buffer of a put whose record was written, and its slot not: complete, with its stamp, and named by no
// slot. Its memory is taken before another use gets it.
std::optional<Table::Draft> Table::adopt_unnamed(const ChangeLog::Change& last) {
  const Offset at = last.buffer;
  if (last.kind != ChangeLog::Kind::kPut || at.value % kGranuleBytes != 0) return std::nullopt;
  if (!heap_.is_inside(at, sizeof(BufferHeader)) || writer_.load(at) != last.stamp) return std::nullopt;
  const Lengths lengths = Lengths::from_word(writer_.load(at.plus(offsetof(BufferHeader, lengths))));
  if (!lengths.is_sound() || !heap_.is_inside(at, lengths.total_bytes())) return std::nullopt;
  const HashedKey key = hashed({writer_.at(at.plus(lengths.key_at())), lengths.key_bytes});
  if (!std::ranges::equal(key.bytes, last.key) || !is_behind(key, last.stamp)) return std::nullopt;
  if (!heap_.mark_live(at, lengths.total_bytes())) return std::nullopt;
  return Draft{.buffer = at, .lengths = lengths, .hash = key.hash};
}

Result<> Table::redo(const ChangeLog::Change& last, const std::optional<Draft>& unnamed) {
  // It was pending in the table before it was logged (BatchRest).
  if (last.kind == ChangeLog::Kind::kGroup) return {};
  if (unnamed) {
    if (store_again(*unnamed, locate(hashed(last.key)), last.stamp)) return {};
    abandon(*unnamed);
    return fail(Code::kNoSpace);
  }
  // Its buffer is used for something else by now: then its slot was there, and has gone since.
  if (last.kind == ChangeLog::Kind::kPut && last.buffer) {
    return sessions_->open() == nullptr ? Result<>() : fail(Code::kCorrupt);
  }
  const Result<bool> restored = restore(hashed(last.key), last);
  if (!restored) return fail(restored.error());
  // Where there was nothing to store any more: its time has come meanwhile.
  sessions_->mark_open();
  return {};
}

}  // namespace refract::kv
