// SPDX-License-Identifier: Apache-2.0
// Writes of long values: what is behind one of its tag is held, from its turn on, until its draft is there.
// So of a tag one draft at most is under way, and what holds a place at the owner can always be committed.
#include <algorithm>

#include "refract/base/check.h"
#include "refract/client/numbered/numbered_writes.h"

namespace refract::client {

void NumberedWrites::hold_for_draft(NumberedWrite& write) {
  WriteList::remove(write);
  bars_[bar_of(write.operation.tag, write.number_)].held.add(write);
  // It may have been in another bar before, which was lifted.
  if (write.is_drafting_) return;
  write.is_drafting_ = true;
  to_draft_.push_back(&write);
}

NumberedWrite* NumberedWrites::next_draft() {
  if (!is_connected_ || to_draft_.empty()) return nullptr;
  NumberedWrite* const write = to_draft_.front();
  to_draft_.pop_front();
  return write;
}

bool NumberedWrites::end_drafting(NumberedWrite& write) noexcept {
  if (!write.is_drafting_) return false;
  write.is_drafting_ = false;
  std::erase(to_draft_, &write);
  return true;
}

void NumberedWrites::drafted(NumberedWrite& write, uint64_t draft) {
  REFRACT_DCHECK(draft != 0);
  if (!end_drafting(write)) return;
  write.draft_ = draft;
  const uint64_t key = bar_of(write.operation.tag, write.number_);
  if (const auto bar = bars_.find(key); bar != bars_.end()) look_at_bar(key, bar->second);
}

void NumberedWrites::not_drafted_now(NumberedWrite& write) {
  if (write.is_drafting_) to_draft_.push_back(&write);
}

void NumberedWrites::not_drafted(NumberedWrite& write, Code code) {
  if (!end_drafting(write)) return;
  WriteList::remove(write);
  tell(write, NumberedOutcome::of(code));
  const uint64_t key = bar_of(write.operation.tag, write.number_);
  if (const auto bar = bars_.find(key); bar != bars_.end()) look_at_bar(key, bar->second);
  tell_all();
}

}  // namespace refract::client
