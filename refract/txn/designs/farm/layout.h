// SPDX-License-Identifier: Apache-2.0
// How FaRM's share of one server lies in its region, and the bodies of its calls.
//
//   region   root | index | objects
//   entry    hash 8 | object 8                      object 0: no key stands here
//   object   lines of 64 bytes, equally many in all:
//     line 0    lock 1 bit, version 63 bits | key bytes 4 | value bytes 4 | 48 bytes of key and value
//     others    the version's low 16 bits 2 | the next 62 bytes
//
// object.h has how lines are read and written. Entries are probed one behind the other from the place that
// the key's hash names; keys stay for ever.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "refract/base/hash.h"
#include "refract/base/units.h"
#include "refract/txn/designs/design.h"

namespace refract::txn::farm {

inline constexpr uint64_t kLineBytes = 64;
inline constexpr uint64_t kFirstBytes = 48;  // Of key and value, in line 0.
inline constexpr uint64_t kNextBytes = 62;   // In each other line.
inline constexpr uint64_t kProbesMax = 128;

struct Root {
  uint64_t magic;
  uint64_t index;        // Offset of the first entry.
  uint64_t entry_count;  // A power of two.
  uint64_t objects;      // Offset of the first.
  uint64_t object_bytes;
  uint64_t hash_seed;
  uint32_t key_bytes_max;
  uint32_t value_bytes_max;
  uint64_t reserved;

  static constexpr uint64_t kMagic = 0x31'4d'52'41'46'52'00'00;  // "\0\0RFARM1", little endian.
};
static_assert(sizeof(Root) == 64 && offsetof(Root, hash_seed) == 40);
static_assert(std::is_trivially_copyable_v<Root> && std::has_unique_object_representations_v<Root>);

struct Entry {
  uint64_t hash;
  uint64_t object;  // Offset.
};
static_assert(sizeof(Entry) == 16);

struct Header {
  uint64_t bits = 0;

  static constexpr uint64_t kLock = uint64_t{1} << 63;
  static constexpr uint16_t kNoVersion = 0;  // Of a line.
  [[nodiscard]] constexpr bool is_locked() const noexcept { return (bits & kLock) != 0; }
  [[nodiscard]] constexpr uint64_t version() const noexcept { return bits & ~kLock; }
  [[nodiscard]] constexpr uint16_t of_lines() const noexcept { return static_cast<uint16_t>(bits); }
};
// Behind this one, of the same object.
[[nodiscard]] constexpr uint64_t next_version(uint64_t version) noexcept {
  const uint64_t next = version + 1;
  return static_cast<uint16_t>(next) == Header::kNoVersion ? next + 1 : next;
}

// Of line 0.
struct ObjectHeader {
  uint64_t header;
  uint32_t key_bytes;
  uint32_t value_bytes;
};
static_assert(sizeof(ObjectHeader) == 16 && sizeof(ObjectHeader) + kFirstBytes == kLineBytes);

[[nodiscard]] constexpr uint64_t object_bytes_for(uint64_t key_and_value_bytes) noexcept {
  const uint64_t rest = key_and_value_bytes - std::min(key_and_value_bytes, kFirstBytes);
  return (1 + (rest + kNextBytes - 1) / kNextBytes) * kLineBytes;
}
[[nodiscard]] constexpr uint64_t entry_at(const Root& root, uint64_t index) noexcept {
  return root.index + (index & (root.entry_count - 1)) * sizeof(Entry);
}
[[nodiscard]] constexpr uint64_t probes_of(const Root& root) noexcept {
  return std::min(kProbesMax, root.entry_count);
}
// An eighth of the entries is used when it is full, as in PRISM-TX.
[[nodiscard]] constexpr Root root_for(const designs::Capacity& capacity, uint64_t hash_seed) noexcept {
  Root root{};
  root.magic = Root::kMagic;
  root.index = sizeof(Root);
  root.entry_count = std::bit_ceil(std::max<uint64_t>(16, 8 * capacity.keys_max));
  root.objects = round_up(root.index + root.entry_count * sizeof(Entry), kLineBytes);
  root.object_bytes = object_bytes_for(uint64_t{capacity.key_bytes_max} + capacity.value_bytes_max);
  root.hash_seed = hash_seed;
  root.key_bytes_max = capacity.key_bytes_max;
  root.value_bytes_max = capacity.value_bytes_max;
  return root;
}

// The calls. All but the first are answered by a code alone.
inline constexpr uint16_t kMethodAttach = 0x330;  // An empty body, and an AttachReply.
// LockItems. All objects are locked, if none is and each has its version; else none, and kConflict.
inline constexpr uint16_t kMethodLock = 0x331;
// For each object an UpdateHeader and the value, padded to 8. It gets the value and the next version, and is
// unlocked. kConflict: the session does not hold all of them, and nothing was changed.
inline constexpr uint16_t kMethodUpdate = 0x332;
inline constexpr uint16_t kMethodUnlock = 0x333;  // LockItems: what the session holds of these is unlocked.
// As an update, and all stay locked.
inline constexpr uint16_t kMethodUpdateHeld = 0x334;

struct AttachReply {
  uint64_t key;    // Of the region.
  uint64_t bytes;  // Of the region.
  uint16_t region;
  uint16_t reserved[3];
};
static_assert(sizeof(AttachReply) == 24 && std::has_unique_object_representations_v<AttachReply>);

struct LockItem {
  uint64_t object;
  uint64_t version;
};
static_assert(sizeof(LockItem) == 16);

struct UpdateHeader {
  uint64_t object;
  uint32_t value_bytes;
  uint32_t reserved;
};
static_assert(sizeof(UpdateHeader) == 16);

}  // namespace refract::txn::farm
