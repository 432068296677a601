// SPDX-License-Identifier: Apache-2.0
// The common direct get, in as few instructions as possible. What it says is as right as what the
// careful reader (direct_reader.h) says, by the same argument; what it does not settle it leaves to that one.
//
// How many gets the processor overlaps is decided here, by three things (docs/benchmarks.md has the numbers):
// how many instructions a get takes; how many of them wait for a miss, for they fill the scheduler; and that
// no address of a store comes out of a miss, for such a store holds up all later loads. So nothing is called,
// nothing is computed twice, and lengths decide branches instead of addresses.
//
// Threads: one. The memory outlives the reader.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "refract/base/result.h"
#include "refract/kv/direct/known_table.h"
#include "refract/kv/direct/slot_lead.h"
#include "refract/kv/direct/table_view.h"
#include "refract/kv/layout/layout.h"
#include "refract/memory/remote_visible.h"

namespace refract::kv {

template <typename Memory>
class QuickReader {
 public:
  QuickReader(Memory& memory, const TableView<Memory>& view) noexcept
      : memory_(memory), directory_(view.directory()), directory_words_(view.directory_words()) {}

  // The first slot that matches, a small value without an expiry. False: not so, or not settled, and the sink
  // may have been asked; after look_again() the careful reader decides. Bounds are checked once for the
  // largest such buffer, so lengths need no trust before the last look.
  template <typename Sink>
  [[nodiscard, gnu::always_inline]] bool get(std::span<const std::byte> key, uint64_t hash, Sink& sink,
                                             Found& found) noexcept {
    // A copy: behind each load that others may change, members would be fetched again.
    Memory memory = memory_;
    if (!is_current(memory) || key.size() > kKeyBytesMax) [[unlikely]]
      return false;
    Lead lead;
    return find(memory, hash, lead) && get(memory, lead, key, sink, found);
  }

  // get in two halves, for callers that let time pass between them.
  using Lead = SlotLead;  // Of the first slot that matches. kNoSlot: the second half settles nothing.
  [[nodiscard, gnu::always_inline]] bool find(Memory& memory, uint64_t hash, Lead& lead) const noexcept {
    const Offset bucket = known_.bucket_of(hash);
    const uint32_t hits = memory.match(bucket, Slot::fingerprint_of(hash));
    if (hits == 0) [[unlikely]]
      return false;
    lead.slot_at = slot_at(bucket, hits);
    lead.slot = Slot{memory.observe(lead.slot_at)};
    return true;
  }
  // Its buffer begins where no whole one can: no space is longer than what a slot can name.
  static constexpr Slot kNoSlot{~uint64_t{0}};
  // REQUIRES: key.size() <= kKeyBytesMax.
  template <typename Sink>
  [[nodiscard, gnu::always_inline]] bool get(const Lead& lead, std::span<const std::byte> key, Sink& sink,
                                             Found& found) noexcept {
    Memory memory = memory_;
    return get(memory, lead, key, sink, found);
  }
  template <typename Sink>
  [[nodiscard, gnu::always_inline]] bool get(Memory& memory, const Lead& lead, std::span<const std::byte> key,
                                             Sink& sink, Found& found) noexcept {
    const Offset buffer = lead.slot.buffer();
    if (buffer.value >= known_.buffers_end) [[unlikely]]
      return false;
    // Before the lengths: only what stands between two looks at one stamp belongs to that stamp.
    const uint64_t stamp = memory.observe(buffer);
    const uint64_t lengths = memory.observe(buffer.plus(offsetof(BufferHeader, lengths)));
    // The upper half is the key's length, and flags that must be clear: what is left is the value's.
    const uint64_t value_bytes = value_bytes_of(lengths, key);
    if (value_bytes >= Lengths::kAlignedValueBytes) [[unlikely]]
      return false;
    if (!lead.slot.names(stamp) || !memory.equals(buffer.plus(sizeof(BufferHeader)), key)) [[unlikely]]
      return false;
    std::byte* target = sink(value_bytes);
    if (target == nullptr) [[unlikely]]
      return false;
    const Offset value = buffer.plus(sizeof(BufferHeader) + key.size());
    found = {.code = Code::kOk, .version = stamp, .value_bytes = value_bytes};
    if constexpr (requires { memory.hold(value); }) {
      if (const auto held = memory.hold(value); value_bytes <= held.kBytes) [[likely]] {
        if (!lead.still_holds(memory, stamp)) [[unlikely]]
          return false;
        held.store(target, value_bytes);
        return true;
      }
    }
    memory.copy(target, value, value_bytes);
    if constexpr (requires { Memory::kLooksTwice; }) {
      if (!lead.still_holds(memory, stamp) || !memory.equals(value, {target, value_bytes})) [[unlikely]]
        return false;
    }
    return lead.still_holds(memory, stamp);
  }

  // Of a key ahead of its get, in stages between which other keys have theirs, so that many misses overlap:
  // bucket; slot and buffer; and where the first line has no such slot, that of the second. All are hints.
  struct Ahead {
    uint64_t hash = 0;
    Offset line;  // Whose slots are looked at next; none: no line is.
    Lead lead{.slot_at = {}, .slot = kNoSlot};
  };
  [[gnu::always_inline]] void fetch_bucket(uint64_t hash, Ahead& ahead) const noexcept {
    ahead.hash = hash;
    ahead.line = known_.bucket_of(hash);
    memory_.prefetch(ahead.line);
  }
  [[gnu::always_inline]] void fetch_buffer(Ahead& ahead) const noexcept {
    Memory memory = memory_;
    const uint32_t hits = memory.match(ahead.line, Slot::fingerprint_of(ahead.hash));
    if (hits == 0) [[unlikely]] {
      const Offset next = line_at(memory.observe(ahead.line.plus(kOverflowWord * sizeof(Slot))));
      ahead.line = next.value < known_.buffers_end ? next : Offset{};
      ahead.lead.slot = kNoSlot;
      memory.prefetch(next);
      return;
    }
    fetch_hits(hits, ahead);
  }
  [[gnu::always_inline]] void fetch_behind(Ahead& ahead) const noexcept {
    if (!ahead.line) [[likely]]
      return;
    Memory memory = memory_;
    if (const uint32_t hits = memory.match(ahead.line, Slot::fingerprint_of(ahead.hash)); hits != 0) {
      fetch_hits(hits, ahead);
    }
  }

  // The same without the value's bytes: the buffer is held by `hold(buffer)` once its slot was seen, and is
  // the one that was meant if true is returned; else it was let go of by `hold.undo()`, if it was held at
  // all. No bound on where a small value ends is checked but the largest that such a value can have.
  template <typename Hold>
  [[nodiscard, gnu::always_inline]] bool locate(std::span<const std::byte> key, uint64_t hash, Hold& hold,
                                                Found& found, Offset& value) const noexcept {
    Memory memory = memory_;
    if (!is_current(memory) || key.size() > kKeyBytesMax) [[unlikely]]
      return false;
    Lead lead;
    if (!find(memory, hash, lead)) [[unlikely]]
      return false;
    const Offset buffer = lead.slot.buffer();
    // Before its bytes are looked at: a hold takes effect while the miss of the buffer is under way.
    if (buffer.value >= known_.buffers_end || !hold(buffer)) [[unlikely]]
      return false;
    const uint64_t stamp = memory.observe(buffer);
    const uint64_t lengths = memory.observe(buffer.plus(offsetof(BufferHeader, lengths)));
    const uint64_t value_bytes = value_bytes_of(lengths, key);
    if (value_bytes < Lengths::kAlignedValueBytes && lead.slot.names(stamp) &&
        memory.equals(buffer.plus(sizeof(BufferHeader)), key)) [[likely]] {
      if (lead.still_holds(memory, stamp)) [[likely]] {
        found = {.code = Code::kOk, .version = stamp, .value_bytes = value_bytes};
        value = buffer.plus(sizeof(BufferHeader) + key.size());
        return true;
      }
    }
    hold.undo();
    return false;
  }

  // The same of long values. A search of its own, since all of it would cost the short ones.
  template <typename Hold>
  [[nodiscard, gnu::noinline]] bool locate_long(std::span<const std::byte> key, uint64_t hash, Hold& hold,
                                                Found& found, Offset& value) const noexcept {
    Memory memory = memory_;
    Lead lead;
    if (!is_current(memory) || key.size() > kKeyBytesMax || !find(memory, hash, lead)) return false;
    const Offset buffer = lead.slot.buffer();
    if (buffer.value >= known_.buffers_end || !hold(buffer)) return false;
    const uint64_t stamp = memory.observe(buffer);
    const uint64_t lengths = memory.observe(buffer.plus(offsetof(BufferHeader, lengths)));
    if (lead.locate_long(memory, {.stamp = stamp, .lengths = lengths}, key, found, value)) return true;
    hold.undo();
    return false;
  }

  // The same for an entry that nothing is read of.
  [[nodiscard, gnu::always_inline]] bool look(std::span<const std::byte> key, uint64_t hash,
                                              Found& found) const noexcept {
    NoHold hold;
    Offset value;
    return locate(key, hash, hold, found, value);
  }

  // Whether it knows the table as it is.
  [[nodiscard]] bool is_current() const noexcept { return is_current(memory_); }

  // What get() knows beforehand, brought up to date: the bucket count with where its chunks lie, and how much
  // of the space may be read. get() answers nothing while the table has another count.
  [[gnu::noinline, gnu::cold]] void look_again() noexcept {
    known_.look_at(memory_, {.at = directory_, .words = directory_words_}, kSmallReach, chunks_);
  }

 private:
  struct NoHold {
    [[nodiscard]] bool operator()(Offset) const noexcept { return true; }
    void undo() const noexcept {}
  };

  [[nodiscard]] bool is_current(Memory& memory) const noexcept {
    return memory.observe(kBucketCountAt) == known_.count;
  }
  // What a batch has left behind the value does not matter. Large where key or flags are others.
  [[nodiscard, gnu::always_inline]] static uint64_t value_bytes_of(uint64_t lengths,
                                                                   std::span<const std::byte> key) noexcept {
    constexpr uint64_t kBatch = Lengths{.flags = Lengths::kBatch}.word();
    const uint64_t value_bytes = lengths ^ (uint64_t{key.size()} << 32);
    // A mask before the comparison would cost all others a register.
    if (value_bytes < Lengths::kAlignedValueBytes) [[likely]]
      return value_bytes;
    return value_bytes ^ kBatch;
  }
  // Of the first of some slots.
  [[nodiscard, gnu::always_inline]] static Offset slot_at(Offset line, uint32_t hits) noexcept {
    return line.plus(uint64_t{static_cast<uint32_t>(std::countr_zero(hits))} * sizeof(Slot));
  }

  // Wherever it is: no address makes a prefetch fail.
  void fetch(Memory memory, Offset buffer) const noexcept {
    memory.prefetch(buffer);
    memory.prefetch(buffer.plus(kLineBytes));
  }
  // Ends with `ahead.line`: the first hit is read; of the others one will be, if that is another key's.
  [[gnu::always_inline]] void fetch_hits(uint32_t hits, Ahead& ahead) const noexcept {
    Memory memory = memory_;
    ahead.lead.slot_at = slot_at(ahead.line, hits);
    ahead.lead.slot = Slot{memory.observe(ahead.lead.slot_at)};
    fetch(memory, ahead.lead.slot.buffer());
    while ((hits &= hits - 1) != 0) [[unlikely]]
      fetch(memory, Slot{memory.observe(slot_at(ahead.line, hits))}.buffer());
    ahead.line = {};
  }

  // How far the largest buffer of get may reach.
  static constexpr uint64_t kSmallReach = sizeof(BufferHeader) + kKeyBytesMax + Lengths::kAlignedValueBytes;

  Memory& memory_;
  const uint64_t directory_;
  const uint64_t directory_words_;
  KnownTable known_;
  std::vector<Offset> chunks_;
};

}  // namespace refract::kv
