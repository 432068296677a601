// SPDX-License-Identifier: Apache-2.0
// How our key-value table lies in a node's space: buckets of seven slots, values out of place.
//
//   bucket (64 B)  slot 0 | slot 1 | ... | slot 6 | overflow        one cache line, 8-byte words
//   slot           fingerprint 8 | stamp 16 | size hint 4 | expires 1 | granule 35      0: free
//   buffer         stamp 8 | lengths 8 | [expiry 8] | [identity 16] | key | [padding] | value | [trailer 32]
//
// The invariants that readers rely on; NOTES.md argues them, table_interleaving_test.cc tries every order of
// loads: (I1) One 8-byte store of a slot publishes, replaces or erases an entry. Values are never changed in
// place. (I2) A buffer's stamp is zeroed before its bytes change and stored after they are complete; no two
// contents of a
//      space ever carry the same stamp, across restarts too.
// (I3) An entry stays in its slot until it is erased, its bucket is split, or the bucket split next is. A
// split
//      puts what leaves its bucket into the new one, and what stands behind the first line of the bucket that
//      was split before into free slots there; then it publishes the bucket count; then it clears the old
//      slots.
// (I4) Bucket and line memory holds slots for ever. Only an empty last line of a chain is unlinked.
//
// docs/formats/kv-table.md has a worked example in hex, which is also the golden test.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "refract/memory/slot_word.h"
#include "refract/memory/space.h"

namespace refract::kv {

inline constexpr size_t kKeyBytesMax = 65'535;
inline constexpr uint64_t kValueBytesMax = uint64_t{512} << 20;

// Where a reader starts: at offset kRootAt of the space.
struct TableRoot {
  // How many buckets the table has. They are addressed by the low bits of the hash: bucket_index().
  uint64_t bucket_count;
  uint64_t reserved_line[7];
  // For people and for checks, written now and then; the owner counts again at restart.
  uint64_t directory;  // Offset of one word a bucket chunk: where it lies.
  uint64_t directory_words;
  uint64_t decision;  // Of the owner's batches: Decision::bits. 0: there was none.
  // Offset of the first FarPart, which lead from one to the next. 0: there is none.
  uint64_t far_parts;
  uint64_t reserved[4];
};
static_assert(sizeof(TableRoot) == 128 && offsetof(TableRoot, directory) == 64 &&
              offsetof(TableRoot, decision) == 80 && offsetof(TableRoot, far_parts) == 88);
static_assert(sizeof(TableRoot) <= sizeof(SpaceHeader::store_root));

inline constexpr Offset kRootAt{offsetof(SpaceHeader, store_root)};
inline constexpr Offset kBucketCountAt{kRootAt.value + offsetof(TableRoot, bucket_count)};
inline constexpr Offset kDecisionAt{kRootAt.value + offsetof(TableRoot, decision)};
inline constexpr Offset kFarPartsAt{kRootAt.value + offsetof(TableRoot, far_parts)};

inline constexpr uint64_t kSlotsPerBucket = 7;
inline constexpr uint64_t kOverflowWord = 7;
inline constexpr uint64_t kBucketsPerChunk = kChunkBytes / kLineBytes;

struct Bucket {
  uint64_t slots[kSlotsPerBucket];
  uint64_t overflow;  // Offset of the next line of the chain, 0: none.
};
static_assert(sizeof(Bucket) == kLineBytes);

// Readers follow a chain for so many lines, the bucket's own among them; what they have not found by then
// they ask the owner for, which finds it without the chain (crowds.h). Keys that were not chosen for it need
// two lines.
inline constexpr int kLinesWalked = 8;

// A line's place as a word of the table names it. Damage may leave any bits there; vector loads must not
// fault on them.
[[nodiscard]] constexpr Offset line_at(uint64_t word) noexcept {
  return {word & ~(kLineBytes - 1)};
}

// Linear hashing: with 2^k <= count < 2^(k+1) buckets, those below count - 2^k and from 2^k on are already
// split.
[[nodiscard]] constexpr uint64_t bucket_index(uint64_t hash, uint64_t count) noexcept {
  const uint64_t mask = ~uint64_t{0} >> std::countl_zero(count);
  // Without a branch, which the processor could not predict.
  return hash & (mask >> uint64_t{(hash & mask) >= count});
}

// Which bucket the split that made the table `count` buckets large took its entries from. REQUIRES: count
// > 1.
[[nodiscard]] constexpr uint64_t split_source(uint64_t count) noexcept {
  return (count - 1) - std::bit_floor(count - 1);
}

// The bucket whose overflow lines' entries the split to `count` buckets brings forward, into its first line:
// it was split last, and has had room there since. REQUIRES: count > 2.
[[nodiscard]] constexpr uint64_t forwarded_bucket(uint64_t count) noexcept {
  return split_source(count - 1);
}
// Whether a bucket's entries may have come forward while the table grew from one count to the other: a reader
// that saw its first line before, and the lines behind it afterwards, has missed them, and begins again.
[[nodiscard]] constexpr bool came_forward(uint64_t bucket, uint64_t from, uint64_t to) noexcept {
  if (from < 2 || to <= from) return false;
  // Counts behind the splits of the bucket: bucket + 1 + 2^k, where 2^k is above it.
  const uint64_t above = from - 1 > bucket ? from - 1 - bucket : 1;
  const uint64_t power = std::bit_ceil(above > bucket ? above : bucket + 1);
  return bucket + power + 1 < to;
}

// A slot's word.
struct Slot {
  uint64_t bits = 0;

  static constexpr int kStampShift = SlotWord::kStampShift;
  static constexpr int kHintShift = 36;
  static constexpr int kExpiresShift = 35;
  static constexpr uint64_t kGranuleMask = SlotWord::kGranuleMask;

  struct Parts {
    uint64_t hash = 0;
    uint64_t stamp = 0;
    uint64_t bytes = 0;  // Of the whole buffer.
    bool expires = false;
    Offset buffer{};
  };
  [[nodiscard]] static constexpr Slot of(const Parts& parts) noexcept {
    return {(uint64_t{fingerprint_of(parts.hash)} << 56) | SlotWord::of(parts.buffer, parts.stamp).bits |
            (uint64_t{size_hint_of(parts.bytes)} << kHintShift) | (uint64_t{parts.expires} << kExpiresShift)};
  }

  [[nodiscard]] static constexpr uint8_t fingerprint_of(uint64_t hash) noexcept {
    return static_cast<uint8_t>(hash >> 56);
  }
  // A remote reader's first guess: the buffer has at most 64 << hint bytes; 15 says more than a guess can.
  static constexpr uint8_t kSizeHintTooLarge = 15;
  [[nodiscard]] static constexpr uint8_t size_hint_of(uint64_t bytes) noexcept {
    const auto hint = bytes <= 64 ? 0 : std::bit_width((bytes - 1) / 64);
    return static_cast<uint8_t>(hint < kSizeHintTooLarge ? hint : kSizeHintTooLarge);
  }

  [[nodiscard]] constexpr explicit operator bool() const noexcept { return bits != 0; }
  [[nodiscard]] constexpr uint8_t fingerprint() const noexcept { return static_cast<uint8_t>(bits >> 56); }
  [[nodiscard]] constexpr uint8_t size_hint() const noexcept { return (bits >> kHintShift) & 0xf; }
  [[nodiscard]] constexpr bool expires() const noexcept { return ((bits >> kExpiresShift) & 1) != 0; }
  [[nodiscard]] constexpr Offset buffer() const noexcept { return SlotWord{bits}.buffer(); }
  // Whether this word can have been published for a buffer that carries `stamp`.
  [[nodiscard]] constexpr bool names(uint64_t stamp) const noexcept {
    return stamp != 0 && SlotWord{bits}.stamp_bits() == (stamp & SlotWord::kStampMask);
  }
};
static_assert(sizeof(Slot) == 8);

// The second word of a buffer, read and written as one.
struct Lengths {
  uint32_t value_bytes = 0;
  uint16_t key_bytes = 0;
  uint16_t flags = 0;

  static constexpr uint16_t kExpires = 1;
  static constexpr uint16_t kIdentified = 2;  // The RequestId of the put that made the entry.
  // Written by a batch: a Trailer stands behind the value, to the end of the buffer's life.
  static constexpr uint16_t kPending = 4;  // Not believed without a look at its decision. Cleared once.
  static constexpr uint16_t kBatch = 8;
  static constexpr uint16_t kTombstone = 32;  // With kPending: what it decides is an erasure.
  // Planned, and not written yet: 16 tagged, 64 hidden, 128 client flags, 8 to 11 type. 12 to 15 stay 0.

  [[nodiscard]] static constexpr Lengths from_word(uint64_t word) noexcept {
    return std::bit_cast<Lengths>(word);
  }
  [[nodiscard]] constexpr uint64_t word() const noexcept { return std::bit_cast<uint64_t>(*this); }

  [[nodiscard]] constexpr uint64_t identity_at() const noexcept { return (flags & kExpires) != 0 ? 24 : 16; }
  [[nodiscard]] constexpr uint64_t key_at() const noexcept {
    return identity_at() + ((flags & kIdentified) != 0 ? 16 : 0);
  }
  // Large values start on a cache line, so that what reads them can use aligned loads.
  [[nodiscard]] constexpr uint64_t value_at() const noexcept {
    const uint64_t end = key_at() + key_bytes;
    return value_bytes < kAlignedValueBytes ? end : (end + 63) / 64 * 64;
  }
  // To the value's end.
  [[nodiscard]] constexpr uint64_t content_bytes() const noexcept { return value_at() + value_bytes; }
  // Where kBatch is set.
  [[nodiscard]] constexpr uint64_t trailer_at() const noexcept { return (content_bytes() + 7) / 8 * 8; }
  [[nodiscard]] constexpr uint64_t total_bytes() const noexcept {
    return (flags & kBatch) == 0 ? content_bytes() : trailer_at() + kTrailerBytes;
  }
  [[nodiscard]] constexpr bool is_pending() const noexcept { return (flags & kPending) != 0; }
  [[nodiscard]] constexpr bool is_sound() const noexcept {
    constexpr uint16_t kKnown = kExpires | kIdentified | kPending | kBatch | kTombstone;
    // What is pending has a trailer, and only that erases.
    const bool agrees = ((flags & kPending) == 0 || (flags & kBatch) != 0) &&
                        ((flags & kTombstone) == 0 || (flags & kPending) != 0);
    return key_bytes > 0 && value_bytes <= kValueBytesMax && (flags & ~kKnown) == 0 && agrees;
  }
  // Once it is decided; of an entry that is not pending it changes nothing.
  [[nodiscard]] constexpr Lengths applied() const noexcept {
    return {.value_bytes = value_bytes,
            .key_bytes = key_bytes,
            .flags = static_cast<uint16_t>(flags & ~kPending)};
  }
  // As a file has it, where nothing is pending and no trailer follows.
  [[nodiscard]] constexpr Lengths without_batch() const noexcept {
    return {.value_bytes = value_bytes,
            .key_bytes = key_bytes,
            .flags = static_cast<uint16_t>(flags & (kExpires | kIdentified))};
  }

  static constexpr uint32_t kAlignedValueBytes = 4096;
  static constexpr uint64_t kTrailerBytes = 32;
};
static_assert(sizeof(Lengths) == 8 && std::has_unique_object_representations_v<Lengths>);
// What stands in front of a key at most.
inline constexpr uint64_t kFrontBytesMax =
    Lengths{.flags = Lengths::kExpires | Lengths::kIdentified}.key_at();

// Behind the value of an entry that a batch of several keys wrote, at Lengths::trailer_at().
struct Trailer {
  uint64_t number;       // Of the batch: a stamp.
  uint64_t generation;   // Of the other node's memory that has the decision; 0: of this node's.
  uint64_t decision_at;  // Offset there; of a transaction over several shards DecisionPlace::bits.
  uint64_t replaced;     // What the slot named before: Slot::bits. 0: nothing.
};
static_assert(sizeof(Trailer) == Lengths::kTrailerBytes && offsetof(Trailer, replaced) == 24);

struct BufferHeader {
  uint64_t stamp;    // Also the entry's version. 0: being written.
  uint64_t lengths;  // Lengths::word()
};
static_assert(sizeof(BufferHeader) == 16);
inline constexpr uint64_t kExpiryAt =
    16;  // Wall clock of the node in nanoseconds, where Lengths::kExpires is set.

}  // namespace refract::kv
