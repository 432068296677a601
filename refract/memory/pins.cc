// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/pins.h"

#include <algorithm>
#include <atomic>

#include "refract/memory/remote_visible.h"

namespace refract {

namespace {

constexpr uint64_t kNoSlot = uint64_t{1} << 63;

// Acquire and release: who takes a slot anew comes behind whoever gave it back.
uint64_t load_bits(const uint64_t& word) noexcept {
  return observe_u64(&word);
}
void set_bits(uint64_t& word, uint64_t bits) noexcept {
  std::atomic_ref<uint64_t>(word).fetch_or(bits, std::memory_order_acquire);
}
void clear_bits(uint64_t& word, uint64_t bits) noexcept {
  std::atomic_ref<uint64_t>(word).fetch_and(~bits, std::memory_order_release);
}

}  // namespace

PinWriter::PinWriter(PinTable* table) noexcept : table_(table) {
  publish_u64(&table_->count, 0);
  for (PinSlot& slot : table_->slot) publish_u64(&slot.offset, 0);
  used_[3] = kNoSlot;
}

int PinWriter::pin(Offset buffer, uint64_t stamp) noexcept {
  for (size_t word = 0; word < std::size(used_); ++word) {
    const uint64_t used = load_bits(used_[word]);
    if (used == ~uint64_t{0}) continue;
    const auto bit = static_cast<size_t>(std::countr_one(used));
    const size_t index = word * 64 + bit;
    set_bits(used_[word], uint64_t{1} << bit);
    // The count first: a collector that sees the pin must also look that far.
    if (index >= count_) publish_u64(&table_->count, count_ = index + 1);
    publish_u64(&table_->slot[index].stamp, stamp);
    announce_u64(&table_->slot[index].offset, buffer.value);
    return static_cast<int>(index);
  }
  return -1;
}

void PinWriter::unpin(int index) noexcept {
  const auto slot = static_cast<size_t>(index);
  if (index < 0 || slot >= kPinsMax || (load_bits(used_[slot / 64]) >> (slot % 64) & 1) == 0) return;
  unpin_by_any_thread(index);
  // Only this thread sets bits: what is unused stays so, and nobody needs to look at it.
  if (in_use() == 0) publish_u64(&table_->count, count_ = 0);
}

void PinWriter::unpin_by_any_thread(int index) noexcept {
  const auto slot = static_cast<size_t>(index);
  publish_u64(&table_->slot[slot].offset, 0);
  clear_bits(used_[slot / 64], uint64_t{1} << (slot % 64));
}

size_t PinWriter::in_use() const noexcept {
  int count = 0;
  for (const uint64_t& word : used_) count += std::popcount(load_bits(word));
  return table_ == nullptr ? 0 : static_cast<size_t>(count - 1);
}

void PinSet::clear() noexcept {
  offsets_.clear();
  sealed_ = true;
}

void PinSet::add(Offset buffer) {
  offsets_.push_back(buffer.value);
  sealed_ = false;
}

void PinSet::seal() noexcept {
  if (!sealed_) std::sort(offsets_.begin(), offsets_.end());
  sealed_ = true;
}

bool PinSet::contains(Offset buffer) const noexcept {
  if (sealed_) return std::binary_search(offsets_.begin(), offsets_.end(), buffer.value);
  return std::find(offsets_.begin(), offsets_.end(), buffer.value) != offsets_.end();
}

void collect_pins(const PinTable& table, PinSet& pins) noexcept {
  const uint64_t count = std::min<uint64_t>(observe_u64(&table.count), kPinsMax);
  for (uint64_t index = 0; index < count; ++index) {
    const uint64_t offset = observe_u64(&table.slot[index].offset);
    if (offset != 0) pins.add({offset});
  }
}

}  // namespace refract
