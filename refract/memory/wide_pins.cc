// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/wide_pins.h"

namespace refract {

WidePins::WidePins(PinWriter& first, const More& more) noexcept : first_(&first), more_(more) {
  if (more_.tables.empty()) return;
  publish_u64(more_.in_use, tables_);
  writers_ = std::make_unique<PinWriter[]>(more_.tables.size());
}

// A table with room is looked for behind the one that was full, so that a reader that holds nearly all it may
// does not look at all of them for each pin; and from the first one on every now and then, so that few tables
// are in use when few pins are held.
int WidePins::pin_in_some(Offset buffer, uint64_t stamp) noexcept {
  if (--pins_until_look_ == 0) {
    pins_until_look_ = kPinsPerLook;
    give_up_empty_tables();
    current_ = 0;
  }
  for (size_t looked = 0; looked < tables_; ++looked) {
    if (current_ == tables_) current_ = 0;
    const int index = writer(current_).pin(buffer, stamp);
    if (index >= 0) return static_cast<int>(current_) * kIndicesPerTable + index;
    ++current_;
  }
  if (!add_table()) {
    current_ = 0;
    return -1;
  }
  current_ = tables_ - 1;
  return static_cast<int>(current_) * kIndicesPerTable + writer(current_).pin(buffer, stamp);
}

bool WidePins::add_table() noexcept {
  if (tables_ > more_.tables.size()) return false;
  if (made_ < tables_) {
    PinTable& table = more_.tables[made_];
    if (more_.take != nullptr && !more_.take(table)) return false;
    writers_[made_++] = PinWriter(&table);
  }
  // Before the pin is announced: a collector that sees the pin must also look that far.
  publish_u64(more_.in_use, ++tables_);
  return true;
}

void WidePins::give_up_empty_tables() noexcept {
  const size_t before = tables_;
  while (tables_ > 1 && writer(tables_ - 1).in_use() == 0) --tables_;
  if (tables_ != before) publish_u64(more_.in_use, tables_);
}

void WidePins::unpin(int index) noexcept {
  if (index < 0 || static_cast<size_t>(index / kIndicesPerTable) > made_) return;
  of(index).unpin(index % kIndicesPerTable);
}

size_t WidePins::retire() noexcept {
  size_t held = 0;
  for (size_t table = 0; table <= made_; ++table) held += writer(table).retire();
  return held;
}

size_t WidePins::in_use() const noexcept {
  size_t held = 0;
  for (size_t table = 0; table <= made_; ++table) held += writer(table).in_use();
  return held;
}

}  // namespace refract
