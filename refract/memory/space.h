// SPDX-License-Identifier: Apache-2.0
// How a node's space begins: the header page, then the chunk table, then what the store keeps there, then
// chunks.
//
// Everything else about a space follows from these words and from the store's table: free lists, counters and
// retire queues are rebuilt at restart and never stored. docs/formats/kv-table.md has the picture and a
// worked example.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "refract/memory/remote_pointer.h"
#include "refract/memory/size_class.h"
#include "refract/memory/store_name.h"

namespace refract {

inline constexpr uint64_t kSpaceMagic = 0x31'43'41'52'46'45'52'00;  // "\0REFRAC1", little endian.
extern const uint32_t kSpaceLayoutVersion;                          // versions.cc
// Beside the version in its word: the space has stores beside the table of keys (store_directory.h), and a
// release that does not know of them must not touch it.
inline constexpr uint32_t kSpaceHasStores = 1 << 16;
[[nodiscard]] inline bool is_known_layout(uint32_t layout_version) noexcept {
  return (layout_version & ~kSpaceHasStores) == kSpaceLayoutVersion;
}

// What the store's time is (store_time.h). Changed only before a server runs and after it has ended.
struct SpaceTime {
  // Store time is CLOCK_BOOTTIME plus this, in the boot named behind it. 0: the space is of a version that
  // took the wall clock's word for it.
  uint64_t offset_ns;
  uint64_t boot[2];
  // Both clocks when the node was last stopped; 0: it has not been.
  uint64_t left_ns;
  uint64_t left_wall_ns;
};
static_assert(sizeof(SpaceTime) == 40);

inline constexpr uint64_t kFillBegun = 1;
inline constexpr uint64_t kFillComplete = 2;

// Whether the files of a space may lack what was stored in them: a node marks them before it stores anything,
// and again when it has ended and all of it is on the disk. Which boot the mark is of says `time`.
struct SpaceUse {
  uint64_t state;  // kSpaceInUse, kSpaceLeft; 0: not said, which counts as in use.
  // The first file itself. A copy of it was made page by page, at no one moment.
  uint64_t device;
  uint64_t inode;
};
inline constexpr uint64_t kSpaceInUse = 1;
inline constexpr uint64_t kSpaceLeft = 2;

struct SpaceStore {
  StoreName name;
  uint64_t root;  // Offset of what the store has made its first place.
};
static_assert(sizeof(SpaceStore) == 16);
inline constexpr uint64_t kSpaceStoresMax = 8;

struct SpaceHeader {
  uint64_t magic;
  uint32_t layout_version;
  uint32_t chunk_bytes;
  uint64_t chunks_max;   // The space never outgrows this; fixed at birth.
  uint64_t chunk_table;  // Offset of chunks_max words, one a chunk (ChunkWord).
  uint64_t store_area;   // Offset of the store's own area, directly behind the chunk table.
  uint64_t store_area_bytes;
  uint64_t hash_seed;  // Secret of the node: without it no client can choose colliding keys.
  // Which shard's space this is, of how many at its birth; count 0 means one.
  uint32_t shard_index;
  uint32_t shard_count;
  // Every stamp that may ever have been given out is below this word; raised in steps before stamps are given
  // out, so that after a crash no stamp is given out twice. On a line of its own.
  uint64_t stamp_limit;
  uint64_t reserved_line[7];
  uint64_t store_root[112];  // The store's words that readers look at first (kv/layout/layout.h).
  SpaceTime time;
  uint64_t fill_state;  // Of a space that is filled from a disk: kFillBegun, kFillComplete; 0: neither.
  SpaceUse use;         // Of a space in files.
  // Of a space that was filled from a disk: no stamp up to this one is given out in its life. The log's files
  // say so before a change has a higher one. 0: not filled, or by an earlier release.
  uint64_t floor_stamp;
  SpaceStore stores[kSpaceStoresMax];  // Beside the table; no name: no store has the place.
  uint64_t copies;                     // kv.copies at its birth, by which its keys are routed.
  // cluster::placement_of() at its birth, by which it has some of the slots. 0: it has all.
  uint64_t placement;
  uint64_t reserved_end[356];
};
static_assert(sizeof(SpaceHeader) == 4096 && std::is_trivially_copyable_v<SpaceHeader>);
static_assert(offsetof(SpaceHeader, shard_index) == 56 && offsetof(SpaceHeader, shard_count) == 60);
static_assert(offsetof(SpaceHeader, stamp_limit) == 64 && offsetof(SpaceHeader, store_root) == 128);
static_assert(offsetof(SpaceHeader, time) == 1024 && offsetof(SpaceHeader, use) == 1072);
static_assert(offsetof(SpaceHeader, floor_stamp) == 1072 + sizeof(SpaceUse));
static_assert(offsetof(SpaceHeader, stores) == 1104 && offsetof(SpaceHeader, copies) == 1232);

enum class ChunkKind : uint8_t {
  kFree = 0,
  kHeader = 1,   // The space's header, chunk table and the store's area.
  kSlab = 2,     // Buffers of one class.
  kExtent = 3,   // Runs of kExtentGranuleBytes.
  kBuckets = 4,  // The store's table: never used for anything else again.
  kLines = 5,    // Single lines of 64 bytes for the store: never used for anything else again.
};

// A chunk's word: what it is used for, stored before anything can point into it.
struct ChunkWord {
  uint64_t bits = 0;

  [[nodiscard]] static constexpr ChunkWord of(ChunkKind kind, uint8_t size_class = 0) noexcept {
    return {static_cast<uint64_t>(kind) | (uint64_t{size_class} << 8)};
  }
  [[nodiscard]] constexpr ChunkKind kind() const noexcept { return static_cast<ChunkKind>(bits & 0xff); }
  [[nodiscard]] constexpr uint8_t size_class() const noexcept { return static_cast<uint8_t>(bits >> 8); }
  [[nodiscard]] constexpr bool is_sound() const noexcept {
    return bits < 0x10000 && (bits & 0xff) <= static_cast<uint64_t>(ChunkKind::kLines) &&
           size_class() < kSizeClasses;
  }
};

inline constexpr uint64_t kLineBytes = 64;

}  // namespace refract
