// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/tcp/region_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

namespace refract::fabric::tcp {

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

std::byte* RegionTable::resolve(const Place& place, uint64_t bytes, bool Rights::* right) const noexcept {
  const RemotePointer address{place.address};
  for (const Row& row : rows_) {
    if (row.spec.region != address.region()) continue;
    // Neither side of the comparisons can overflow, whatever the peer asks for.
    if (row.key.bits != place.key || !(row.spec.rights.*right)) return nullptr;
    if (address.offset() > row.spec.bytes || bytes > row.spec.bytes - address.offset()) return nullptr;
    return row.spec.base + address.offset();
  }
  return nullptr;
}

Code RegionTable::resolve_word(const Place& place, uint64_t*& word) const noexcept {
  std::byte* const target = resolve(place, sizeof(uint64_t), &Rights::atomic);
  if (target == nullptr) return Code::kAccessDenied;
  if (reinterpret_cast<uintptr_t>(target) % sizeof(uint64_t) != 0) return Code::kInvalidArgument;
  word = reinterpret_cast<uint64_t*>(target);
  return Code::kOk;
}

Code RegionTable::compare_swap(const PlaceAndSwap& swap, uint64_t& value) const noexcept {
  uint64_t* word = nullptr;
  const Code code = resolve_word(swap.place, word);
  if (code != Code::kOk) return code;
  value = swap.compare;
  // A failed exchange stores what the word holds into `value`; a successful one leaves it equal to `compare`.
  (void)std::atomic_ref<uint64_t>(*word).compare_exchange_strong(value, swap.operand);
  return Code::kOk;
}

Code RegionTable::fetch_add(const PlaceAndOperand& add, uint64_t& value) const noexcept {
  uint64_t* word = nullptr;
  const Code code = resolve_word(add.place, word);
  if (code == Code::kOk) value = std::atomic_ref<uint64_t>(*word).fetch_add(add.operand);
  return code;
}

}  // namespace refract::fabric::tcp
