// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/pins.h"

#include <algorithm>
#include <atomic>

#include "refract/memory/remote_visible.h"

namespace refract {

namespace {

constexpr uint64_t kNoSlot = uint64_t{1} << 63;

uint64_t load_bits(const uint64_t& word) noexcept {
  return observe_u64(&word);
}
uint64_t exchange_bits(uint64_t& word, uint64_t bits) noexcept {
  return std::atomic_ref<uint64_t>(word).exchange(bits, std::memory_order_acq_rel);
}

}  // namespace

PinWriter::PinWriter(PinTable* table) noexcept : table_(table) {
  publish_u64(&table_->count, 0);
  for (PinSlot& slot : table_->slot) publish_u64(&slot.offset, 0);
  used_[3] = kNoSlot;
}

// One look at what others let go of serves for all that they did since the last one.
size_t PinWriter::find_slot() noexcept {
  if (table_ == nullptr) return kPinsMax;
  take_back_freed();
  for (size_t word = 0; word < std::size(used_); ++word) {
    if (used_[word] == ~uint64_t{0}) continue;
    return word * 64 + static_cast<size_t>(std::countr_one(used_[word]));
  }
  return kPinsMax;
}

void PinWriter::take_back_freed() noexcept {
  for (size_t word = 0; word < std::size(used_); ++word) {
    if (load_bits(freed_[word]) != 0) used_[word] &= ~exchange_bits(freed_[word], 0);
  }
}

void PinWriter::unpin(int index) noexcept {
  const auto slot = static_cast<size_t>(index);
  if (index < 0 || slot >= kPinsMax) return;
  const uint64_t bit = uint64_t{1} << (slot % 64);
  if ((used_[slot / 64] & ~load_bits(freed_[slot / 64]) & bit) == 0) return;
  publish_u64(&table_->slot[slot].offset, 0);
  used_[slot / 64] &= ~bit;
  // Only this thread pins: what is unused stays so, and needs no look.
  if (in_use() == 0) {
    take_back_freed();
    publish_u64(&table_->count, count_ = 0);
  }
}

size_t PinWriter::retire() noexcept {
  int held = 0;
  for (size_t word = 0; word < std::size(used_); ++word) {
    const uint64_t used = word == 3 ? used_[word] & ~kNoSlot : used_[word];
    held += std::popcount(used & ~exchange_bits(freed_[word], ~uint64_t{0}));
  }
  return static_cast<size_t>(held);
}

size_t PinWriter::in_use() const noexcept {
  int count = 0;
  for (size_t word = 0; word < std::size(used_); ++word) {
    count += std::popcount(used_[word] & ~load_bits(freed_[word]));
  }
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

uint64_t PinSet::count(Offset buffer) const noexcept {
  return static_cast<uint64_t>(std::count(offsets_.begin(), offsets_.end(), buffer.value));
}

void collect_pins(const PinTable& table, PinSet& pins) noexcept {
  const uint64_t count = std::min<uint64_t>(observe_u64(&table.count), kPinsMax);
  for (uint64_t index = 0; index < count; ++index) {
    const uint64_t offset = observe_u64(&table.slot[index].offset);
    if (offset != 0) pins.add({offset});
  }
}

}  // namespace refract
