// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/remote/remote_space.h"

#include <algorithm>

namespace refract::kv {

bool RemoteSpace::add(const wire::RegionEntry& region) {
  const uint64_t end = regions_.empty() ? 0 : regions_.back().start + regions_.back().bytes;
  const bool is_sound = region.start >= end && region.bytes <= RemotePointer::kOffsetMask &&
                        region.start <= RemotePointer::kOffsetMask && regions_.size() < wire::kRegionsMax;
  if (is_sound) regions_.push_back(region);
  return is_sound;
}

std::optional<RemoteSpace::Reach> RemoteSpace::find(Offset at, uint64_t bytes) const noexcept {
  const auto behind = std::ranges::upper_bound(regions_, at.value, {}, &wire::RegionEntry::start);
  if (behind == regions_.begin()) return std::nullopt;
  const wire::RegionEntry& region = *std::prev(behind);
  const uint64_t inside = at.value - region.start;
  if (inside >= region.bytes || bytes > region.bytes - inside) return std::nullopt;
  const RemotePointer first{region.address};
  return Reach{
      .remote = {.address = RemotePointer::at(first.region(), first.offset() + inside), .key = {region.key}},
      .bytes_left = region.bytes - inside};
}

}  // namespace refract::kv
