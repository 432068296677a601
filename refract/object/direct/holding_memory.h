// SPDX-License-Identifier: Apache-2.0
// The memory policy by which a reader of records holds what they name: when a record has been copied, the pin
// of its object is announced; then the reader looks at slot, stamp, record, stamp and slot again
// (quick_reader.h), as a second read of the same entry would.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "refract/memory/wide_pins.h"
#include "refract/object/layout/object_layout.h"

namespace refract::object {

// Whether an object of this record lies in a space of so many bytes.
[[nodiscard]] inline bool is_inside(const ObjectRecord& record, size_t id_bytes, uint64_t bytes) noexcept {
  if (record.object_at == 0 || record.object_at % kBodyAlignment != 0 || record.object_at > bytes) {
    return false;
  }
  if (record.body_bytes > bytes || record.metadata_bytes > kMetadataBytesMax) return false;
  const ObjectParts parts{.body_bytes = record.body_bytes,
                          .metadata_bytes = record.metadata_bytes,
                          .id_bytes = static_cast<uint16_t>(id_bytes)};
  return parts.total_bytes() <= bytes - record.object_at;
}

// What was held on the way to a record that stands: only the pin of the last one is kept.
class RecordHold {
 public:
  explicit RecordHold(WidePins& pins) noexcept : pins_(pins) {}
  RecordHold(const RecordHold&) = delete;
  RecordHold& operator=(const RecordHold&) = delete;
  ~RecordHold() = default;

  void begin(size_t id_bytes) noexcept {
    id_bytes_ = id_bytes;
    pin_ = -1;
  }
  // False: it lies outside, or all pins are in use.
  [[gnu::always_inline]] bool hold(const ObjectRecord& record, uint64_t space_bytes) noexcept {
    if (pin_ >= 0) [[unlikely]]
      undo();
    if (!is_inside(record, id_bytes_, space_bytes)) [[unlikely]]
      return false;
    pin_ = pins_.pin(Offset{record.object_at}, record.birth);
    return pin_ >= 0;
  }
  void undo() noexcept {
    if (pin_ >= 0) pins_.unpin(pin_);
    pin_ = -1;
  }
  [[nodiscard]] int pin() const noexcept { return pin_; }

 private:
  WidePins& pins_;
  size_t id_bytes_ = 0;
  int pin_ = -1;
};

template <typename Memory>
class HoldingMemory {
 public:
  // What was copied is compared behind the copy.
  static constexpr bool kLooksTwice = true;

  // Both outlive it.
  HoldingMemory(Memory& memory, RecordHold& hold) noexcept : memory_(&memory), hold_(&hold) {}

  [[nodiscard, gnu::always_inline]] uint64_t observe(Offset at) const noexcept {
    return memory_->observe(at);
  }
  // Of values alone, which are records: keys are compared, not copied.
  [[gnu::always_inline]] void copy(void* target, Offset at, size_t bytes) const noexcept {
    memory_->copy(target, at, bytes);
    ObjectRecord record;
    if (bytes != sizeof(record)) [[unlikely]]
      return;
    std::memcpy(&record, target, sizeof(record));
    // The body's miss is under way while the record is looked at again.
    if (hold_->hold(record, memory_->bytes())) {
      memory_->prefetch(Offset{record.object_at + ObjectParts::body_at()});
    }
  }
  [[nodiscard, gnu::always_inline]] bool equals(Offset at, std::span<const std::byte> bytes) const noexcept {
    return memory_->equals(at, bytes);
  }
  [[nodiscard, gnu::always_inline]] uint32_t match(Offset bucket, uint8_t fingerprint) const noexcept {
    return memory_->match(bucket, fingerprint);
  }
  [[gnu::always_inline]] void prefetch(Offset at) const noexcept { memory_->prefetch(at); }
  [[nodiscard]] uint64_t bytes() const noexcept { return memory_->bytes(); }
  // Records are short: they are copied, and nothing of the table is pinned.
  [[nodiscard]] PinWriter* pins() const noexcept { return nullptr; }

 private:
  Memory* memory_;
  RecordHold* hold_;
};

}  // namespace refract::object
