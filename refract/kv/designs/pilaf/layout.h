// SPDX-License-Identifier: Apache-2.0
// How Pilaf's store lies in memory, and the bodies of its calls.
//
//   region   64 bytes unused | root, entries | a larger table's root, entries | ... | blobs
//   root     64 bytes: where its table's entries are, and whether they still count
//   entry    40 bytes: where a blob is, its CRC, and the CRC of the entry itself
//   blob     key bytes 4 | value bytes 4 | key | value        a multiple of 64 bytes apart
//
// A key stands in one of the three entries that its three hashes name. Everything is read without the
// server's knowledge while it stores, so everything verifies itself: root and entry by their last word, a
// blob by the CRC in the entry that names it. docs/formats/pilaf.md has a worked example in hex, which is
// also the golden test.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "refract/base/crc64.h"
#include "refract/base/hash.h"
#include "refract/base/prng.h"

namespace refract::kv::pilaf {

inline constexpr uint64_t kRootAt = 64;  // Of the first root: 0 stands for "nowhere".
inline constexpr size_t kWays = 3;
inline constexpr uint64_t kBlobGranuleBytes = 64;

struct Root {
  uint64_t state;        // kMagic, or kMovedMagic once a larger table has taken its place.
  uint64_t entries;      // Offset of the first.
  uint64_t entry_count;  // At least 1.
  uint64_t hash_seed;
  // How often an entry has been copied to another place of this table. A reader that missed its key has
  // really missed it if no entry moved meanwhile.
  uint64_t moves;
  uint64_t blob_bytes_max;  // No blob is longer.
  uint64_t reserved;
  uint64_t crc;  // Over the bytes above.

  static constexpr uint64_t kMagic = 0x31'46'41'4c'49'50'52'00;       // "\0RPILAF1", little endian.
  static constexpr uint64_t kMovedMagic = 0x58'46'41'4c'49'50'52'00;  // "\0RPILAFX"
};
static_assert(sizeof(Root) == 64 && offsetof(Root, crc) == 56);
static_assert(std::is_trivially_copyable_v<Root> && std::has_unique_object_representations_v<Root>);

struct Entry {
  uint64_t blob = 0;  // Offset.
  uint32_t blob_bytes = 0;
  uint32_t state = kFree;
  uint64_t sequence = 0;  // Grows with every change of any entry, so that no two states of one look the same.
  uint64_t blob_crc = 0;
  uint64_t crc = 0;  // Over the 32 bytes above.

  static constexpr uint32_t kFree = 0;
  static constexpr uint32_t kUsed = 1;
  static constexpr uint32_t kMoved = 2;  // The whole table has; its root says so too.
};
static_assert(sizeof(Entry) == 40 && offsetof(Entry, blob_crc) == 24 && offsetof(Entry, crc) == 32);
static_assert(std::is_trivially_copyable_v<Entry> && std::has_unique_object_representations_v<Entry>);

struct BlobHeader {
  uint32_t key_bytes;
  uint32_t value_bytes;
};
static_assert(sizeof(BlobHeader) == 8);

// A root or an entry ends with the CRC of the rest of it.
template <typename T>
[[nodiscard]] uint64_t crc_of(const T& record) noexcept {
  return crc64(std::as_bytes(std::span(&record, 1)).first(sizeof(T) - sizeof(record.crc)));
}
template <typename T>
[[nodiscard]] bool verifies(const T& record) noexcept {
  return crc_of(record) == record.crc;
}

// The three places of a key, as indices of entries; two of them may be the same one.
struct Places {
  std::array<uint64_t, kWays> index;
};
[[nodiscard]] inline Places places_of(std::span<const std::byte> key, const Root& root) noexcept {
  Places places{};
  for (size_t way = 0; way < kWays; ++way) {
    const uint64_t hash = hash_key(key, mix(root.hash_seed + way));
    places.index[way] = static_cast<uint64_t>((static_cast<Wide>(hash) * root.entry_count) >> 64);
  }
  return places;
}

// The calls. A body begins with its struct, then come the bytes it counts.
inline constexpr uint16_t kMethodAttach = 0x300;  // An empty body, and an AttachReply.
inline constexpr uint16_t kMethodPut = 0x301;     // A BlobHeader, key, value; answered by a code alone.
inline constexpr uint16_t kMethodErase = 0x302;   // A BlobHeader with value_bytes 0, key; likewise.

struct AttachReply {
  uint64_t key;    // Of the region.
  uint64_t root;   // Where the present one lies in it.
  uint64_t bytes;  // Of the region.
  uint16_t region;
  uint16_t reserved[3];
};
static_assert(sizeof(AttachReply) == 32 && std::has_unique_object_representations_v<AttachReply>);

}  // namespace refract::kv::pilaf
