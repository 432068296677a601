// SPDX-License-Identifier: Apache-2.0
// How PRISM-KV's store lies in its region, and the body of its one call; all else goes by chains.
//
//   region   root | slots | buffers of list 0 | buffers of list 1 | ...
//   slot     pointer 8 | bound 8 | generation 8          all 0: no key has come here yet
//   buffer   key bytes 4 | value bytes 4 | key | value   written once, before a slot leads to it
//
// Slots are probed one behind the other from the place that the key's hash names. A slot that leads to a key
// belongs to that key for ever: erasing the key puts a tombstone there, which is an item with the key and
// without a value. Were the slot handed to another key, two clients could insert one key into two slots.
//
// Each change of a slot makes its generation one higher, so that no two contents of a slot are the same, even
// where a buffer is used again. docs/formats/prism-kv.md has a worked example in hex, which is also the
// golden test.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "refract/base/hash.h"
#include "refract/base/units.h"
#include "refract/kv/designs/design.h"

namespace refract::kv::prism_kv {

inline constexpr std::string_view kStoreName = "prism-kv";  // What chains attach to.
inline constexpr size_t kListsMax = 12;
// How far a key may stand from the place that its hash names: no client looks further.
inline constexpr uint64_t kProbesMax = 128;
inline constexpr uint64_t kBufferUnitBytes = 64;

struct Root {
  uint64_t magic;
  uint64_t slots;       // Offset of the first.
  uint64_t slot_count;  // A power of two.
  uint64_t hash_seed;
  uint32_t key_bytes_max;
  uint32_t value_bytes_max;
  uint64_t list_count;
  // How long the buffers of each free list are, growing from list 1 on. Those of list 0 are for tombstones,
  // so that a full store can still erase.
  uint64_t buffer_bytes[kListsMax];
  uint64_t reserved[2];

  static constexpr uint64_t kMagic = 0x31'4b'4d'53'49'52'50'00;  // "\0PRISMK1", little endian.
};
static_assert(sizeof(Root) == 160 && offsetof(Root, buffer_bytes) == 48);
static_assert(std::is_trivially_copyable_v<Root> && std::has_unique_object_representations_v<Root>);
inline constexpr uint64_t kSlotsAt = 192;

struct Slot {
  uint64_t pointer = 0;  // A RemotePointer into the same region.
  uint64_t bound = 0;    // How long the item is: what an indirect READ returns at most.
  uint64_t generation = 0;
  bool operator==(const Slot&) const = default;
};
static_assert(sizeof(Slot) == 24 && std::has_unique_object_representations_v<Slot>);

struct ItemHeader {
  uint32_t key_bytes;
  uint32_t value_bytes;  // kTombstone: the key has been erased.

  static constexpr uint32_t kTombstone = UINT32_MAX;
  [[nodiscard]] constexpr uint64_t item_bytes() const noexcept {
    return sizeof(ItemHeader) + key_bytes + (value_bytes == kTombstone ? 0 : uint64_t{value_bytes});
  }
};
static_assert(sizeof(ItemHeader) == 8);

[[nodiscard]] inline uint64_t home_of(std::span<const std::byte> key, const Root& root) noexcept {
  return hash_key(key, root.hash_seed) & (root.slot_count - 1);
}
[[nodiscard]] constexpr uint64_t slot_at(const Root& root, uint64_t index) noexcept {
  return root.slots + (index & (root.slot_count - 1)) * sizeof(Slot);
}
[[nodiscard]] constexpr uint64_t item_bytes_max(const Root& root) noexcept {
  return sizeof(ItemHeader) + root.key_bytes_max + root.value_bytes_max;
}
// The first list whose buffers are long enough. REQUIRES: bytes <= item_bytes_max.
[[nodiscard]] constexpr uint64_t list_for(const Root& root, uint64_t item_bytes) noexcept {
  uint64_t list = 1;
  while (list + 1 < root.list_count && root.buffer_bytes[list] < item_bytes) ++list;
  return list;
}

// What a store of this capacity begins with. Half of its slots are used when it is full; lengths of buffers
// are powers of two, but for the last.
[[nodiscard]] constexpr Root root_for(const designs::Capacity& capacity, uint64_t hash_seed) noexcept {
  Root root{};
  root.magic = Root::kMagic;
  root.slots = kSlotsAt;
  root.slot_count = std::bit_ceil(std::max<uint64_t>(16, 2 * capacity.keys_max));
  root.hash_seed = hash_seed;
  root.key_bytes_max = capacity.key_bytes_max;
  root.value_bytes_max = capacity.value_bytes_max;
  root.buffer_bytes[0] = round_up(sizeof(ItemHeader) + capacity.key_bytes_max, 8);
  root.list_count = 1;
  const uint64_t longest = round_up(item_bytes_max(root), kBufferUnitBytes);
  uint64_t bytes = std::bit_ceil(
      std::max<uint64_t>(kBufferUnitBytes, sizeof(ItemHeader) + uint64_t{capacity.value_bytes_min}));
  for (; bytes < longest && root.list_count + 1 < kListsMax; bytes *= 2) {
    root.buffer_bytes[root.list_count++] = bytes;
  }
  root.buffer_bytes[root.list_count++] = longest;
  return root;
}

// Clients tell which buffers are not needed any more: remote pointers, 8 bytes each. Answered by a code
// alone.
inline constexpr uint16_t kMethodReport = 0x310;
inline constexpr size_t kReportsMax = 64;  // Of one call.

}  // namespace refract::kv::prism_kv
