// SPDX-License-Identifier: Apache-2.0
#include "bench/load/sized_table.h"

#include <bit>
#include <cstring>
#include <utility>

#include "refract/base/hash.h"

namespace refract::bench {
namespace {

constexpr uint64_t kSeed = 42;

uint8_t tag_of(uint64_t hash) noexcept {
  return static_cast<uint8_t>((hash >> 57) | 0x80);
}

size_t slot_bytes_of(const SizedTable::Sizes& sizes) noexcept {
  return (sizes.key_bytes + sizes.value_bytes + 7) / 8 * 8;
}

}  // namespace

Reported<SizedTable> SizedTable::create(const Sizes& sizes) {
  const uint64_t slots = std::bit_ceil(sizes.entries + sizes.entries * 3 / 7 + 1);
  Reported<AnonymousMemory> memory =
      AnonymousMemory::create(slots * (slot_bytes_of(sizes) + 1), Pages::kTransparent);
  if (!memory) return report(memory.error());
  return SizedTable(std::move(*memory), sizes, slots);
}

SizedTable::SizedTable(AnonymousMemory memory, const Sizes& sizes, uint64_t slots) noexcept
    : memory_(std::move(memory)),
      sizes_(sizes),
      mask_(slots - 1),
      slot_bytes_(slot_bytes_of(sizes)),
      slots_(memory_.data()),
      tags_(reinterpret_cast<uint8_t*>(memory_.data() + slots * slot_bytes_)) {}

void SizedTable::put(std::span<const std::byte> key, std::span<const std::byte> value) noexcept {
  const uint64_t hash = hash_key(key, kSeed);
  for (uint64_t at = hash & mask_;; at = (at + 1) & mask_) {
    if (tags_[at] != 0 && std::memcmp(slot(at), key.data(), sizes_.key_bytes) != 0) continue;
    tags_[at] = tag_of(hash);
    std::memcpy(slot(at), key.data(), sizes_.key_bytes);
    std::memcpy(slot(at) + sizes_.key_bytes, value.data(), sizes_.value_bytes);
    return;
  }
}

bool SizedTable::get(std::span<const std::byte> key, std::span<std::byte> value) const noexcept {
  const uint64_t hash = hash_key(key, kSeed);
  const uint8_t tag = tag_of(hash);
  for (uint64_t at = hash & mask_;; at = (at + 1) & mask_) {
    if (tags_[at] == 0) return false;
    if (tags_[at] != tag || std::memcmp(slot(at), key.data(), sizes_.key_bytes) != 0) continue;
    std::memcpy(value.data(), slot(at) + sizes_.key_bytes, sizes_.value_bytes);
    return true;
  }
}

}  // namespace refract::bench
