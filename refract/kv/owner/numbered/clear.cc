// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/numbered/clear.h"

#include "refract/kv/layout/scan_cursor.h"
#include "refract/kv/owner/parts/parts.h"

namespace refract::kv {

// A chain takes its stamp when it allocates: one that installs its buffer later is refused (before_install),
// and comes again with a younger one.
uint64_t Table::Clear::begin() {
  return table_.cleared_stamp_ = table_.heap_.next_stamp();
}

bool Table::Clear::was_given(uint64_t stamp) {
  return stamp < table_.heap_.next_stamp();
}

Table::Clear::Step Table::Clear::step(uint64_t stamp, uint64_t cursor) {
  Step step{.next = cursor};
  uint64_t lines = 0;
  do {
    step.waits = meets_held(stamp, step.next);
    if (step.waits) break;
    const Piece piece = piece_at(step.next);
    step.code = erase_older(piece, stamp, step.erased);
    step.waits = step.code == Code::kOverloaded;
    if (step.waits) step.code = Code::kOk;
    if (step.waits || step.code != Code::kOk) break;
    step.next = piece.next;
    lines += room_.lines + 1;
  } while (step.next != 0 && lines < kLinesMax && step.erased < kErasedMax);
  return step;
}

// As scans have it: what lies behind a cursor stays behind, however often buckets are split meanwhile.
Table::Clear::Piece Table::Clear::piece_at(uint64_t cursor) const {
  const ScanStep at = scan_step(cursor, table_.count_);
  Piece piece{.hand = {.bucket = at.bucket, .line = 0}, .next = at.next};
  const Crowd* const crowd = table_.crowd_of(at.bucket);
  if (crowd == nullptr) return piece;
  const Crowds& crowds = *table_.crowds();
  const uint64_t number = crowds.piece_of(at.bucket, cursor & kCursorPieceMask).value_or(0);
  piece.hand.line = number * kLinesPerPiece;
  if ((number + 1) * kLinesPerPiece < crowd->lines().size()) {
    piece.next = (cursor & ~kCursorPieceMask) | crowds.piece_bits(at.bucket, number + 1);
  }
  return piece;
}

bool Table::Clear::is_older(Slot slot, uint64_t stamp) const noexcept {
  return table_.writer_.load(slot.buffer()) < stamp;
}

// Whether the walk has to stop in front of what is there. What has been decided is settled on the way, and
// then all is looked at again: settling moves entries, unlinks lines, and may split buckets.
bool Table::Clear::meets_held(uint64_t stamp, uint64_t cursor) {
  while (table_.holding_ != nullptr) {
    const uint64_t ended = table_.parts_->ended();
    const bool is_held = is_any_held(stamp, cursor, ended);
    if (table_.parts_->ended() == ended) return is_held;
  }
  return false;
}

// A pending entry is waited for whatever its stamp is: what it replaces may come back.
bool Table::Clear::is_any_held(uint64_t stamp, uint64_t cursor, uint64_t ended) {
  for (const Standing& standing : slots_of(piece_at(cursor))) {
    const Slot slot = standing.slot;
    if (!is_older(slot, stamp) && !table_.lengths_of(slot).is_pending()) continue;
    if (table_.is_held(table_.hash(table_.key_of(slot)))) return true;
    if (table_.parts_->ended() != ended) return false;
  }
  return false;
}

// REQUIRES: nothing there is held.
Code Table::Clear::erase_older(const Piece& piece, uint64_t stamp, uint64_t& erased) {
  Code code = Code::kOk;
  bool is_any_gone = false;
  for (const Standing& standing : slots_of(piece)) {
    if (!is_older(standing.slot, stamp)) continue;
    code = erase(standing);
    if (code != Code::kOk) break;
    is_any_gone = true;
    ++erased;
  }
  if (is_any_gone) table_.trim(piece.hand.bucket);
  return code;
}

// One whose time has come goes as by a sweep, which tells the log nothing.
Code Table::Clear::erase(const Standing& standing) {
  const Slot slot = standing.slot;
  if (table_.is_expired(slot)) {
    ++table_.stats_.expired;
  } else {
    const std::span<const std::byte> key = table_.key_of(slot);
    if (const Code code = table_.room_in_log(key.size(), 0); code != Code::kOk) return code;
    if (table_.log_ != nullptr) [[unlikely]] {
      table_.logged_stamp_ = table_.heap_.next_stamp();
      table_.log_->append({.kind = ChangeLog::Kind::kErase, .stamp = table_.logged_stamp_, .key = key});
    }
  }
  table_.remove(standing.slot_at, slot);
  return Code::kOk;
}

}  // namespace refract::kv
