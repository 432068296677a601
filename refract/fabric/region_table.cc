// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/region_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "refract/base/units.h"
#include "refract/memory/remote_visible.h"

namespace refract::fabric {

bool is_sound(const Domain::RegionSpec& spec) noexcept {
  return spec.base != nullptr && spec.bytes != 0 && spec.first < kPageBytes &&
         spec.bytes <= RemotePointer::kOffsetMask - spec.first;
}

Reported<> RegionTable::add(const Domain::RegionSpec& spec, RemoteKey key) {
  if (!is_sound(spec) || key.bits == 0) {
    return report(Code::kInvalidArgument, fmt::format("region {} cannot be served", spec.region),
                  "a region has a base, a length below 2^48 and a key other than 0");
  }
  row_of_.resize(std::max(row_of_.size(), size_t{spec.region} + 1));
  if (row_of_[spec.region] != 0) {
    return report(Code::kInvalidArgument, fmt::format("region {} is registered already", spec.region),
                  "revoke it first");
  }
  rows_.push_back({.spec = spec, .key = key});
  row_of_[spec.region] = static_cast<uint32_t>(rows_.size());
  return {};
}

uint64_t RegionTable::remove(uint16_t region) noexcept {
  if (region >= row_of_.size() || row_of_[region] == 0) return 0;
  const uint32_t row = row_of_[region];
  const uint64_t written_bytes = rows_[row - 1].written_bytes;
  row_of_[region] = 0;
  if (row < rows_.size()) {
    rows_[row - 1] = rows_.back();
    row_of_[rows_.back().spec.region] = row;
  }
  rows_.pop_back();
  return written_bytes;
}

void RegionTable::count_written(uint16_t region, uint64_t bytes) noexcept {
  if (region < row_of_.size() && row_of_[region] != 0) rows_[row_of_[region] - 1].written_bytes += bytes;
}

RegionTable::Located RegionTable::look_up(const Access& place, bool Rights::* right) const noexcept {
  const uint16_t region = place.address.region();
  if (region >= row_of_.size() || row_of_[region] == 0) return {nullptr, Refusal::kUnknownRegion};
  const Row& row = rows_[row_of_[region] - 1];
  if (row.key != place.key) return {nullptr, Refusal::kWrongKey};
  if (!(row.spec.rights.*right)) return {nullptr, Refusal::kRightMissing};
  // One below the first wraps to a large one. Neither side of the comparisons can overflow, whatever the peer
  // asks for.
  const uint64_t offset = place.address.offset() - row.spec.first;
  if (offset > row.spec.bytes || place.bytes > row.spec.bytes - offset) {
    return {nullptr, Refusal::kOutOfBounds};
  }
  return {row.spec.base + offset, Refusal::kNone};
}

Code RegionTable::read(const Access& place, std::span<std::byte> target) const noexcept {
  if (target.size() > place.bytes) return Code::kAccessDenied;
  const std::byte* const source = look_up(place, &Rights::read).bytes;
  if (source == nullptr) return Code::kAccessDenied;
  copy_possibly_torn(target.data(), source, target.size());
  return Code::kOk;
}

Code RegionTable::write(const Access& place, std::span<const std::byte> source) noexcept {
  if (source.size() > place.bytes) return Code::kAccessDenied;
  std::byte* const target = look_up(place, &Rights::write).bytes;
  if (target == nullptr) return Code::kAccessDenied;
  store_possibly_torn(target, source.data(), source.size());
  count_written(place.address.region(), source.size());
  return Code::kOk;
}

Code RegionTable::look_up_word(const Access& place, uint64_t*& word) const noexcept {
  std::byte* const target =
      look_up({.address = place.address, .key = place.key, .bytes = sizeof(uint64_t)}, &Rights::atomic).bytes;
  if (target == nullptr) return Code::kAccessDenied;
  if (reinterpret_cast<uintptr_t>(target) % sizeof(uint64_t) != 0) return Code::kInvalidArgument;
  word = reinterpret_cast<uint64_t*>(target);
  return Code::kOk;
}

Code RegionTable::compare_swap(const Access& place, const Swap& swap, uint64_t& value) const noexcept {
  uint64_t* word = nullptr;
  const Code code = look_up_word(place, word);
  if (code != Code::kOk) return code;
  value = swap.compare;
  // A failed exchange stores what the word holds into `value`; a successful one leaves it as compared.
  (void)std::atomic_ref<uint64_t>(*word).compare_exchange_strong(value, swap.operand);
  return Code::kOk;
}

Code RegionTable::fetch_add(const Access& place, uint64_t addend, uint64_t& value) const noexcept {
  uint64_t* word = nullptr;
  const Code code = look_up_word(place, word);
  if (code == Code::kOk) value = std::atomic_ref<uint64_t>(*word).fetch_add(addend);
  return code;
}

}  // namespace refract::fabric
