// SPDX-License-Identifier: Apache-2.0
// How PRISM-TX's share of one server lies in its region, and the body of its one call; all else goes by
// chains.
//
//   region   root | slots | buffers
//   slot     PW 8 | PR 8 | C 8 | pointer 8          all 0: no key stands here
//   buffer   C 8 | key bytes 4 | value bytes 4 | key | value    written once, before a slot leads to it
//
// PW is the timestamp of the latest writer that has prepared, PR of the latest reader, C of the latest writer
// that has committed. Fields stand so that one comparison of 16 bytes looks at PW first and at PR then. A
// timestamp is 48 bits of the client's clock and 16 of its number, so no two transactions have the same.
// Slots are probed one behind the other from the place that the key's hash names; keys stay for ever.
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
#include "refract/txn/designs/design.h"

namespace refract::txn::prism_tx {

inline constexpr std::string_view kStoreName = "prism-tx";  // What chains attach to.
// How far a key may stand from the place that its hash names: no client looks further.
inline constexpr uint64_t kProbesMax = 128;

struct Root {
  uint64_t magic;
  uint64_t slots;       // Offset of the first.
  uint64_t slot_count;  // A power of two.
  uint64_t hash_seed;
  uint32_t key_bytes_max;
  uint32_t value_bytes_max;
  uint64_t buffer_bytes;
  uint64_t reserved[2];

  static constexpr uint64_t kMagic = 0x31'58'54'53'49'52'50'00;  // "\0PRISTX1", little endian.
};
static_assert(sizeof(Root) == 64 && offsetof(Root, buffer_bytes) == 40);
static_assert(std::is_trivially_copyable_v<Root> && std::has_unique_object_representations_v<Root>);
inline constexpr uint64_t kSlotsAt = 64;

struct Slot {
  uint64_t prepared_writer = 0;
  uint64_t prepared_reader = 0;
  uint64_t committed = 0;
  uint64_t pointer = 0;  // A RemotePointer into the same region.
  bool operator==(const Slot&) const = default;
};
static_assert(sizeof(Slot) == 32 && offsetof(Slot, prepared_reader) == 8 && offsetof(Slot, committed) == 16 &&
              offsetof(Slot, pointer) == 24);
static_assert(std::has_unique_object_representations_v<Slot>);

struct ItemHeader {
  uint64_t timestamp;
  uint32_t key_bytes;
  uint32_t value_bytes;

  [[nodiscard]] constexpr uint64_t item_bytes() const noexcept {
    return sizeof(ItemHeader) + uint64_t{key_bytes} + value_bytes;
  }
};
static_assert(sizeof(ItemHeader) == 16 && offsetof(ItemHeader, key_bytes) == 8);

struct Timestamp {
  uint64_t bits = 0;

  static constexpr unsigned kClientBits = 16;
  static constexpr uint64_t kTicksMax = (uint64_t{1} << 48) - 1;
  // 208 days of a clock. A client reads before it prepares, so two transactions of which one ended before the
  // other began are never as near as this.
  static constexpr uint64_t kTick_ns = 64;

  [[nodiscard]] static constexpr Timestamp of(uint64_t ticks, uint16_t client) noexcept {
    return {ticks << kClientBits | client};
  }
  [[nodiscard]] constexpr uint64_t ticks() const noexcept { return bits >> kClientBits; }
  [[nodiscard]] constexpr uint16_t client() const noexcept { return static_cast<uint16_t>(bits); }
};
// Of what was there before the first client.
inline constexpr Timestamp kLoaded = Timestamp::of(1, 0);

[[nodiscard]] constexpr uint64_t slot_at(const Root& root, uint64_t index) noexcept {
  return root.slots + (index & (root.slot_count - 1)) * sizeof(Slot);
}
[[nodiscard]] inline uint64_t home_of(std::span<const std::byte> key, const Root& root) noexcept {
  return hash_key(key, root.hash_seed) & (root.slot_count - 1);
}
// How many slots a key may stand in.
[[nodiscard]] constexpr uint64_t probes_of(const Root& root) noexcept {
  return std::min(kProbesMax, root.slot_count);
}

// An eighth of the slots is used when it is full, so that few keys collide: the paper has none that do.
[[nodiscard]] constexpr Root root_for(const designs::Capacity& capacity, uint64_t hash_seed) noexcept {
  Root root{};
  root.magic = Root::kMagic;
  root.slots = kSlotsAt;
  root.slot_count = std::bit_ceil(std::max<uint64_t>(16, 8 * capacity.keys_max));
  root.hash_seed = hash_seed;
  root.key_bytes_max = capacity.key_bytes_max;
  root.value_bytes_max = capacity.value_bytes_max;
  root.buffer_bytes =
      round_up(sizeof(ItemHeader) + uint64_t{capacity.key_bytes_max} + capacity.value_bytes_max, 8);
  return root;
}

// A session says which client's it is: 8 bytes, its number; answered by a code alone. kExists: the number has
// been used.
inline constexpr uint16_t kMethodJoin = 0x320;

}  // namespace refract::txn::prism_tx
