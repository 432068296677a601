// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/table/replay.h"

#include <algorithm>
#include <array>

namespace refract::kv {
namespace {

// As many as lines may be on their way from memory at once, and a few more.
constexpr size_t kGroup = 16;

}  // namespace

size_t Replay::apply(std::span<const ChangeLog::Change> changes) {
  size_t taken = 0;
  std::array<uint64_t, kGroup> hashes;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled below.
  while (taken < changes.size()) {
    const std::span<const ChangeLog::Change> group =
        changes.subspan(taken, std::min(kGroup, changes.size() - taken));
    for (size_t i = 0; i < group.size(); ++i) {
      hashes[i] = table_.hash(group[i].key);
      table_.prefetch_bucket(hashes[i]);
    }
    // In a table that is being filled few slots fit, but each that does costs a miss.
    for (size_t i = 0; i < group.size(); ++i) table_.prefetch_buffers({group[i].key, hashes[i]});
    for (size_t i = 0; i < group.size(); ++i) {
      const Result<bool> changed = table_.restore({group[i].key, hashes[i]}, group[i]);
      if (!changed) return taken;
      know_stamp(group[i].stamp);
      ++taken;
      ++stats_.changes;
      stats_.without_effect += *changed ? 0 : 1;
    }
  }
  return taken;
}

uint64_t Replay::finish() {
  const uint64_t first = stats_.highest_stamp + kStampsLostMax;
  heap_.skip_stamps_below(first);
  return first;
}

void Replay::know_stamp(uint64_t stamp) noexcept {
  stats_.highest_stamp = std::max(stats_.highest_stamp, stamp);
}

}  // namespace refract::kv
