// SPDX-License-Identifier: Apache-2.0
// Pins: how a reader that cannot write a region keeps a buffer in it from being reused.
//
// A reader owns one page, its PinTable, that the server can read. To hold a buffer it announces the buffer's
// offset there and then looks again whether the slot it came from still names the buffer; the server first
// unlinks a buffer, then collects all pins, then reuses what is not pinned. So one of the two sees the other:
//   (P1) reader: announce the pin, then validate.   (P2) server: unlink, fence, collect.
// The server reads the table and never trusts it: the worst a lying reader can do is to keep at most kPinsMax
// buffers from reuse, or to lose its own views.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "refract/memory/remote_pointer.h"
#include "refract/memory/remote_visible.h"

namespace refract {

inline constexpr size_t kPinsMax = 255;

struct PinSlot {
  uint64_t offset;  // Of the pinned buffer; 0: free.
  uint64_t stamp;   // Of the buffer when it was pinned; for inspection.
};

struct PinTable {
  uint64_t count;  // Slots from here on are free.
  uint64_t reserved;
  PinSlot slot[kPinsMax];
};
static_assert(sizeof(PinTable) == 4096 && offsetof(PinTable, slot) == 16);
static_assert(std::is_trivially_copyable_v<PinTable>);
static_assert(std::has_unique_object_representations_v<PinTable>);

// The reader's side: the only writer of one table. Used by one thread, except let_go. The table outlives it.
// Not copied and not moved once there are pins.
class PinWriter {
 public:
  PinWriter() = default;
  // Takes the table over and clears it.
  explicit PinWriter(PinTable* table) noexcept;

  // Announces the pin and returns its index, or -1 when all are in use. Afterwards validate the slot again:
  // the pin protects only what is still linked then.
  [[nodiscard]] int pin(Offset buffer, uint64_t stamp) noexcept {
    // Few slots as long as few are held, so that there is little to collect.
    const uint64_t free = ~used_[0] & kFewSlots;
    const size_t index = free != 0 ? static_cast<size_t>(std::countr_zero(free)) : find_slot();
    if (index == kPinsMax) [[unlikely]]
      return -1;
    used_[index / 64] |= uint64_t{1} << (index % 64);
    // The count first: a collector that sees the pin must also look that far.
    if (index >= count_) [[unlikely]]
      publish_u64(&table_->count, count_ = index + 1);
    publish_u64(&table_->slot[index].stamp, stamp);
    announce_u64(&table_->slot[index].offset, buffer.value);
    return static_cast<int>(index);
  }
  // Where it was not known before: for inspection only.
  void note_stamp(int index, uint64_t stamp) noexcept {
    publish_u64(&table_->slot[static_cast<size_t>(index)].stamp, stamp);
  }
  void unpin(int index) noexcept;

  // For holders that are not the pinning thread, which may be pinning at the same time. REQUIRES: the pin is
  // held. True: it was retired before, and the thread that retired it waits for this call.
  [[nodiscard]] bool let_go(int index) noexcept {
    const auto slot = static_cast<size_t>(index);
    const uint64_t bit = uint64_t{1} << (slot % 64);
    publish_u64(&table_->slot[slot].offset, 0);
    // The next pin in this slot comes behind this.
    const std::atomic_ref<uint64_t> freed(freed_[slot / 64]);
    return (freed.fetch_or(bit, std::memory_order_acq_rel) & bit) != 0;
  }
  // The pinning thread pins no more. Returns how many are held still, each of whose holders learns from
  // let_go() that it was one of these.
  [[nodiscard]] size_t retire() noexcept;
  [[nodiscard]] size_t in_use() const noexcept;

 private:
  static constexpr uint64_t kFewSlots = 0xff;
  // kPinsMax: there is none.
  [[nodiscard, gnu::noinline]] size_t find_slot() noexcept;
  void take_back_freed() noexcept;

  PinTable* table_ = nullptr;
  uint64_t count_ = 0;  // What the table's count says.
  // One bit a slot; bit 255 stands for no slot and is always set. The pinning thread's own.
  uint64_t used_[4] = {};
  // Of those, what others have let go of: set by any thread, cleared by the pinning one. All: retired.
  uint64_t freed_[4] = {};
};

// The pins of all readers at one moment. Keeps its memory from one collection to the next.
class PinSet {
 public:
  void clear() noexcept;
  void add(Offset buffer);
  // Makes contains fast; collect() ends with it.
  void seal() noexcept;

  [[nodiscard]] bool contains(Offset buffer) const noexcept;
  // Of one buffer: looks at all.
  [[nodiscard]] uint64_t count(Offset buffer) const noexcept;
  [[nodiscard]] bool empty() const noexcept { return offsets_.empty(); }
  [[nodiscard]] size_t size() const noexcept { return offsets_.size(); }
  // As they were announced: not checked.
  [[nodiscard]] std::span<const uint64_t> offsets() const noexcept { return offsets_; }

 private:
  std::vector<uint64_t> offsets_;
  bool sealed_ = true;  // Sorted.
};

// Adds the pins of one untrusted table; reads each word once and bounds the count.
void collect_pins(const PinTable& table, PinSet& pins) noexcept;

// Where the heap's reclamation learns what readers hold.
class PinSource {
 public:
  virtual ~PinSource() = default;
  // Adds every pin that was announced before the call; the caller clears before and seals after. Contains the
  // fence of (P2).
  virtual void collect(PinSet& pins) noexcept = 0;
};

}  // namespace refract
