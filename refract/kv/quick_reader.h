// SPDX-License-Identifier: Apache-2.0
// The common direct get, in as few instructions as it can be had. What it says is as right as what the
// careful reader (direct_reader.h) says, by the same argument; what it does not settle it leaves to that one.
//
// Threads: one. The memory outlives the reader.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "refract/base/result.h"
#include "refract/kv/layout.h"
#include "refract/kv/table_view.h"
#include "refract/memory/remote_visible.h"

namespace refract::kv {

// What the direct path says of an entry.
struct Found {
  // kOk, kNotFound, kTooLarge (the sink refused), kInvalidated (too many retries: ask the server), kCorrupt
  // (a word points outside the space: grow the view first).
  Code code = Code::kNotFound;
  uint64_t version = 0;
  uint64_t value_bytes = 0;
  uint64_t expires_wall_ns = 0;  // 0: never.
};

template <typename Memory>
class QuickReader {
 public:
  QuickReader(Memory& memory, const TableView<Memory>& view) noexcept
      : memory_(memory), directory_(view.directory()), directory_words_(view.directory_words()) {}

  // The common get in few instructions, because how many of them the processor overlaps is decided by their
  // number: the first slot that matches, a small value without an expiry. False: not so, or not settled;
  // get() decides. Bounds are checked once for the largest such buffer, so lengths need no trust before the
  // last look.
  template <typename Sink>
  [[nodiscard]] bool get(std::span<const std::byte> key, uint64_t hash, Sink& sink, Found& found) noexcept {
    // A copy: behind each load that others may change, members would be fetched again.
    Memory memory = memory_;
    const uint64_t end = memory.bytes();
    const uint64_t count = memory.observe(kBucketCountAt);
    if (count != known_count_ && !learn(count)) [[unlikely]]
      return false;
    uint64_t index = hash & known_mask_;
    if (index >= count) index &= known_mask_ >> 1;
    const Offset bucket = line_at(memory.observe({directory_ + index / kBucketsPerChunk * 8}))
                              .plus(index % kBucketsPerChunk * kLineBytes);
    if (bucket.value > end - kSmallReach) return false;
    const uint32_t hits = memory.match(bucket, Slot::fingerprint_of(hash));
    if (hits == 0) return false;
    const Offset slot_at = bucket.plus(static_cast<uint64_t>(std::countr_zero(hits)) * sizeof(Slot));
    const Slot slot{memory.observe(slot_at)};
    const Offset buffer = slot.buffer();
    if (buffer.value > end - kSmallReach) return false;
    const uint64_t stamp = memory.observe(buffer);
    const uint64_t lengths = memory.observe(buffer.plus(offsetof(BufferHeader, lengths)));
    const uint64_t value_bytes = lengths & 0xffff'ffff;
    // The upper half is the key's length, and flags that must be clear.
    if (!slot.names(stamp) || lengths >> 32 != key.size() || value_bytes >= Lengths::kAlignedValueBytes ||
        key.size() > kKeyBytesMax)
      return false;
    if (!memory.equals(buffer.plus(sizeof(BufferHeader)), key)) return false;
    std::byte* target = sink(value_bytes);
    if (target == nullptr) return false;
    memory.copy(target, buffer.plus(sizeof(BufferHeader) + key.size()), value_bytes);
    load_load_fence();
    if (memory.observe(buffer) != stamp || memory.observe(slot_at) != slot.bits) return false;
    found = {.code = Code::kOk, .version = stamp, .value_bytes = value_bytes};
    return true;
  }

 private:
  // How far the largest buffer of get may reach.
  static constexpr uint64_t kSmallReach = sizeof(BufferHeader) + kKeyBytesMax + Lengths::kAlignedValueBytes;

  // What get needs of a bucket count, checked once for each. False: no sound table has so many.
  [[nodiscard, gnu::noinline]] bool learn(uint64_t count) noexcept {
    if (count == 0 || (count - 1) / kBucketsPerChunk >= directory_words_) return false;
    if (memory_.bytes() < kSmallReach) return false;
    known_count_ = count;
    known_mask_ = ~uint64_t{0} >> std::countl_zero(count);
    return true;
  }

  Memory& memory_;
  const uint64_t directory_;
  const uint64_t directory_words_;
  uint64_t known_count_ = 0;
  uint64_t known_mask_ = 0;
};

}  // namespace refract::kv
