// SPDX-License-Identifier: Apache-2.0
// What every direct reader of the table does the same way: find a bucket, and see a buffer's stamp and
// lengths together.
//
// A template over the memory, so that the very same loads run on a mapping, in the simulator, and against
// every interleaving with the owner's stores (table_interleaving_test.cc). A Memory gives:
//   uint64_t observe(Offset)                      an 8-byte load, ordered before later ones
//   void copy(void* target, Offset, size_t)       bytes that may be torn
//   bool equals(Offset, span<const byte>)         likewise
//   uint32_t match(Offset bucket, uint8_t fp)     a hint, see slot_match.h
//   void prefetch(Offset)
//   uint64_t bytes()                              how much of the space may be read
//   PinWriter* pins()                             where this client pins large values; null: it cannot
//   kLooksTwice                                   optional: a short value is compared again behind its copy
//   optional<uint64_t> observe_word(DecisionPlace) optional: a word in the space of another shard, or nothing
//
// Threads: one. `memory` outlives the view.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "refract/base/hash.h"
#include "refract/base/result.h"
#include "refract/kv/layout/decision_words.h"
#include "refract/kv/layout/layout.h"
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
class TableView {
 public:
  // A reader that retries so often meets a writer that never rests, or damage.
  static constexpr int kAttempts = 256;

  // A buffer whose stamp was seen and whose lengths belong to it.
  struct Seen {
    Offset slot_at;
    Slot slot{};
    uint64_t stamp = 0;
    Lengths lengths{};
    // Where it is what a pending entry replaces, that is not decided: the entry that stands in the slot.
    // Free: this is the one.
    Slot pending{};
    uint64_t pending_stamp = 0;
    uint64_t pending_lengths = 0;
  };

  // REQUIRES: the space's header passed Heap::check_header.
  explicit TableView(Memory& memory) noexcept
      : memory_(memory),
        hash_seed_(memory.observe({offsetof(SpaceHeader, hash_seed)})),
        directory_(memory.observe({kRootAt.value + offsetof(TableRoot, directory)})),
        directory_words_(memory.observe({kRootAt.value + offsetof(TableRoot, directory_words)})) {}

  // Flat: a call would cost the common get as much as the hash itself.
  [[nodiscard, gnu::flatten]] uint64_t hash(std::span<const std::byte> key) const noexcept {
    return hash_key(key, hash_seed_);
  }

  [[nodiscard]] bool is_inside(Offset at, uint64_t bytes) const noexcept {
    const uint64_t end = memory_.bytes();
    return at.value != 0 && bytes <= end && at.value <= end - bytes;
  }

  [[nodiscard]] uint64_t observe_count() noexcept { return memory_.observe(kBucketCountAt); }

  // Nowhere for an index whose chunk the directory does not have (a damaged space).
  [[nodiscard]] Offset bucket_at(uint64_t index) noexcept {
    const uint64_t chunk = index / kBucketsPerChunk;
    if (chunk >= directory_words_) return {};
    const Offset start = line_at(memory_.observe({directory_ + chunk * 8}));
    return start.plus(index % kBucketsPerChunk * kLineBytes);
  }
  [[nodiscard]] Offset bucket_of(uint64_t hash, uint64_t count) noexcept {
    return count == 0 ? Offset{} : bucket_at(bucket_index(hash, count));
  }

  // Sees stamp and lengths of the slot's buffer together. False with `code` set: retry, or a damaged space.
  [[nodiscard]] bool see(Seen& seen, Code& code) noexcept {
    const Offset buffer = seen.slot.buffer();
    code = Code::kInvalidated;
    if (!is_inside(buffer, sizeof(BufferHeader))) {
      if (is_current(seen)) code = Code::kCorrupt;
      return false;
    }
    seen.stamp = memory_.observe(buffer);
    if (!seen.slot.names(seen.stamp)) return false;
    seen.lengths = Lengths::from_word(memory_.observe(buffer.plus(offsetof(BufferHeader, lengths))));
    // The stamp is zeroed before lengths change: the same stamp again means that they are its lengths.
    if (memory_.observe(buffer) != seen.stamp) return false;
    if (seen.lengths.is_sound() && is_inside(buffer, seen.lengths.total_bytes())) return true;
    if (is_current(seen)) code = Code::kCorrupt;
    return false;
  }

  // Of an entry that is pending: goes over to what the owner's decision says that the key's entry is. kOk:
  // `seen` is it. kNotFound: there is none, if is_current(seen). kInvalidated: again. kCorrupt: the trailer
  // leads nowhere. docs/design/062-pending-entries.md.
  [[nodiscard, gnu::noinline, gnu::cold]] Code settle(Seen& seen) noexcept {
    const Offset at = seen.slot.buffer().plus(seen.lengths.trailer_at());
    const Trailer trailer{.number = memory_.observe(at.plus(offsetof(Trailer, number))),
                          .generation = memory_.observe(at.plus(offsetof(Trailer, generation))),
                          .decision_at = memory_.observe(at.plus(offsetof(Trailer, decision_at))),
                          .replaced = memory_.observe(at.plus(offsetof(Trailer, replaced)))};
    if (!is_current(seen)) return Code::kInvalidated;
    const DecisionPlace place{trailer.decision_at};
    const bool is_sound = place.is_word() || place.bits == kDecisionAt.value;
    if ((trailer.generation != 0) != place.is_far() || !is_sound) return Code::kCorrupt;
    const std::optional<Decision> decided = decision_at(place, trailer.number);
    if (!decided) return Code::kInvalidated;
    if (decided->commits(trailer.number)) {
      return (seen.lengths.flags & Lengths::kTombstone) != 0 ? Code::kNotFound : Code::kOk;
    }
    // A later batch: all of this one is settled, so another look finds that. Of a word that has gone on all
    // is settled where it was committed; else what was there stays.
    if (!place.is_word() && decided->number() > trailer.number) return Code::kInvalidated;
    return see_replaced(seen, Slot{trailer.replaced});
  }

  // Whether what was read since see() is one content, published at a moment since then. The slot first: a
  // buffer that carried its stamp before and behind that look was its entry's at that look. For one that is
  // pinned the other order would not do: it could be used again between two looks, with equal stamp bits.
  [[nodiscard]] bool is_current(const Seen& seen) noexcept {
    load_load_fence();
    if (seen.pending) [[unlikely]]
      return is_pending_still(seen) && (seen.stamp == 0 || memory_.observe(seen.slot.buffer()) == seen.stamp);
    return memory_.observe(seen.slot_at) == seen.slot.bits &&
           (seen.stamp == 0 || memory_.observe(seen.slot.buffer()) == seen.stamp);
  }

  // Whether the buffer still carries what see() saw.
  [[nodiscard]] bool has_stamp(const Seen& seen) noexcept {
    load_load_fence();
    return memory_.observe(seen.slot.buffer()) == seen.stamp;
  }

  [[nodiscard]] Memory& memory() const noexcept { return memory_; }
  [[nodiscard]] uint64_t hash_seed() const noexcept { return hash_seed_; }
  [[nodiscard]] uint64_t directory() const noexcept { return directory_; }
  [[nodiscard]] uint64_t directory_words() const noexcept { return directory_words_; }

 private:
  // Nothing: that memory is not in this reader's reach, or the place leads nowhere.
  [[nodiscard]] std::optional<Decision> decision_at(DecisionPlace place, uint64_t number) noexcept {
    if (!place.is_word()) return Decision{memory_.observe(kDecisionAt)};
    if constexpr (requires { memory_.observe_word(place, number); }) {
      const std::optional<uint64_t> word = memory_.observe_word(place, number);
      if (word) return Decision{*word};
    }
    return std::nullopt;
  }
  // Undecided when the decision was looked at; and as long as its flag is set what it replaces is not reused.
  [[nodiscard]] Code see_replaced(Seen& seen, Slot replaced) noexcept {
    const Seen pending = seen;
    seen = {.slot_at = pending.slot_at,
            .slot = replaced,
            .pending = pending.slot,
            .pending_stamp = pending.stamp,
            .pending_lengths = pending.lengths.word()};
    if (!replaced) return Code::kNotFound;
    Code code = Code::kOk;
    if (!see(seen, code)) return code;
    // Damage: it is another key's, or is pending as well.
    if (seen.lengths.is_pending() || !has_key_of(seen, pending)) {
      return is_current(seen) ? Code::kCorrupt : Code::kInvalidated;
    }
    return Code::kOk;
  }
  [[nodiscard]] bool has_key_of(const Seen& seen, const Seen& pending) noexcept {
    std::array<std::byte, 256> room;
    const size_t bytes = pending.lengths.key_bytes;
    if (seen.lengths.key_bytes != bytes) return false;
    for (size_t from = 0; from < bytes; from += room.size()) {
      const auto piece = std::span(room).first(std::min(room.size(), bytes - from));
      memory_.copy(piece.data(), pending.slot.buffer().plus(pending.lengths.key_at() + from), piece.size());
      if (!memory_.equals(seen.slot.buffer().plus(seen.lengths.key_at() + from), piece)) return false;
    }
    return true;
  }
  [[nodiscard, gnu::noinline, gnu::cold]] bool is_pending_still(const Seen& seen) noexcept {
    const Offset pending = seen.pending.buffer();
    return memory_.observe(seen.slot_at) == seen.pending.bits &&
           memory_.observe(pending.plus(offsetof(BufferHeader, lengths))) == seen.pending_lengths &&
           memory_.observe(pending) == seen.pending_stamp;
  }

  Memory& memory_;
  const uint64_t hash_seed_;
  const uint64_t directory_;
  const uint64_t directory_words_;
};

}  // namespace refract::kv
