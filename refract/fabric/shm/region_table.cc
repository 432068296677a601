// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/shm/region_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "refract/memory/remote_visible.h"

namespace refract::fabric::shm {

Reported<> RegionTable::add(const Domain::RegionSpec& spec, RemoteKey key) {
  if (spec.base == nullptr || spec.bytes == 0 || spec.bytes > RemotePointer::kOffsetMask || key.bits == 0) {
    return report(Code::kInvalidArgument, fmt::format("region {} cannot be served", spec.region),
                  "a region has a base, a length below 2^48 and a key other than 0");
  }
  const auto taken = [&spec](const Row& row) { return row.spec.region == spec.region; };
  if (std::ranges::any_of(rows_, taken)) {
    return report(Code::kInvalidArgument, fmt::format("region {} is registered already", spec.region),
                  "revoke it first");
  }
  rows_.push_back({spec, key});
  return {};
}

void RegionTable::remove(uint16_t region) noexcept {
  std::erase_if(rows_, [region](const Row& row) { return row.spec.region == region; });
}

std::byte* RegionTable::resolve(const Place& place, bool Rights::* right) const noexcept {
  for (const Row& row : rows_) {
    if (row.spec.region != place.address.region()) continue;
    const uint64_t offset = place.address.offset();
    // Neither side of the comparisons can overflow, whatever the peer asks for.
    if (row.key != place.key || !(row.spec.rights.*right)) return nullptr;
    if (offset > row.spec.bytes || place.bytes > row.spec.bytes - offset) return nullptr;
    return row.spec.base + offset;
  }
  return nullptr;
}

Code RegionTable::read(const Place& place, std::span<std::byte> target) const noexcept {
  const std::byte* source = target.size() <= place.bytes ? resolve(place, &Rights::read) : nullptr;
  if (source == nullptr) return Code::kAccessDenied;
  copy_possibly_torn(target.data(), source, target.size());
  return Code::kOk;
}

Code RegionTable::write(const Place& place, std::span<const std::byte> source) const noexcept {
  std::byte* target = source.size() <= place.bytes ? resolve(place, &Rights::write) : nullptr;
  if (target == nullptr) return Code::kAccessDenied;
  store_possibly_torn(target, source.data(), source.size());
  return Code::kOk;
}

Code RegionTable::resolve_word(const Place& place, uint64_t*& word) const noexcept {
  std::byte* target = resolve(place, &Rights::atomic);
  if (target == nullptr) return Code::kAccessDenied;
  if (reinterpret_cast<uintptr_t>(target) % sizeof(uint64_t) != 0) return Code::kInvalidArgument;
  word = reinterpret_cast<uint64_t*>(target);
  return Code::kOk;
}

Code RegionTable::compare_swap(const Place& place, uint64_t compare, uint64_t swap,
                               uint64_t& value) const noexcept {
  uint64_t* word = nullptr;
  const Code code = resolve_word(place, word);
  if (code != Code::kOk) return code;
  value = compare;
  // A failed exchange stores what the word holds into `value`; a successful one leaves it equal to `compare`.
  (void)std::atomic_ref<uint64_t>(*word).compare_exchange_strong(value, swap);
  return Code::kOk;
}

Code RegionTable::fetch_add(const Place& place, uint64_t addend, uint64_t& value) const noexcept {
  uint64_t* word = nullptr;
  const Code code = resolve_word(place, word);
  if (code == Code::kOk) value = std::atomic_ref<uint64_t>(*word).fetch_add(addend);
  return code;
}

}  // namespace refract::fabric::shm
