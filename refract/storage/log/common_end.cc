// SPDX-License-Identifier: Apache-2.0
#include "refract/storage/log/common_end.h"

#include <algorithm>
#include <cstring>

#include "refract/storage/group.h"

namespace refract::storage {
namespace {

constexpr uint64_t kBytesOfOne = sizeof(uint64_t) + sizeof(uint32_t);

// How much of a log was not synced, in units of a record; more is all the same.
uint32_t unsynced_of(const LogStand& stand) noexcept {
  const uint64_t units = (stand.position - std::min(stand.position, stand.synced)) / kRecordUnit;
  return static_cast<uint32_t>(std::min<uint64_t>(units, UINT32_MAX));
}

}  // namespace

std::vector<std::byte> encode_needs(std::span<const LogStand> stands) {
  std::vector<std::byte> bytes(needs_bytes(stands.size()));
  std::byte* const unsynced = bytes.data() + stands.size() * sizeof(uint64_t);
  for (size_t i = 0; i < stands.size(); ++i) {
    const uint32_t units = unsynced_of(stands[i]);
    std::memcpy(bytes.data() + i * sizeof(uint64_t), &stands[i].position, sizeof(uint64_t));
    std::memcpy(unsynced + i * sizeof(units), &units, sizeof(units));
  }
  return bytes;
}

void LogNeeds::take(const Record& record) {
  const bool may_need = record.kind == RecordKind::kDecided || record.kind == RecordKind::kSettled;
  const size_t count = record.key.size() / kBytesOfOne;
  if (!may_need || count == 0) return;
  const uint64_t first_shard = record.kind == RecordKind::kSettled ? home_shard_of(record.client) : 0;
  needs_.push_back(
      {.position = record.position, .first_shard = first_shard, .first = stands_.size(), .count = count});
  const std::byte* const unsynced = record.key.data() + count * sizeof(uint64_t);
  for (size_t i = 0; i < count; ++i) {
    LogStand& stand = stands_.emplace_back();
    uint32_t units = 0;
    std::memcpy(&stand.position, record.key.data() + i * sizeof(uint64_t), sizeof(uint64_t));
    std::memcpy(&units, unsynced + i * sizeof(units), sizeof(units));
    const bool is_known = units != UINT32_MAX;
    stand.synced = is_known ? stand.position - std::min(stand.position, units * kRecordUnit) : 0;
  }
}

void LogNeeds::end_with(const LogReading& reading, bool has_ring, uint64_t snapshot_position) {
  end_ = has_ring ? UINT64_MAX : reading.end.position;
  gaps_ = reading.gaps;
  snapshot_position_ = snapshot_position;
}

bool LogNeeds::has(uint64_t position, uint64_t end) const noexcept {
  if (position <= snapshot_position_) return true;
  if (position > end) return false;
  return std::ranges::none_of(gaps_, [&](const LogGap& gap) { return gap.has(position); });
}

bool LogNeeds::had_on_disk(uint64_t position) const noexcept {
  if (position <= snapshot_position_) return true;
  if (position > end_) return false;
  return std::ranges::none_of(gaps_, [&](const LogGap& gap) { return !gap.is_cut && gap.has(position); });
}

uint64_t LogNeeds::end_among(std::span<const LogNeeds> logs, std::span<const uint64_t> ends) const {
  const auto is_unmet = [&](const Need& need) {
    for (uint64_t i = 0; i < need.count; ++i) {
      const uint64_t shard = need.first_shard + i;
      if (shard < logs.size() && !logs[shard].has(stands_[need.first + i].position, ends[shard])) return true;
    }
    return false;
  };
  const auto unmet = std::ranges::find_if(needs_, is_unmet);
  return unmet == needs_.end() ? end_ : std::min(end_, unmet->position);
}

std::optional<uint64_t> LogNeeds::shard_with_loss(std::span<const LogNeeds> logs) const {
  for (const Need& need : needs_) {
    for (uint64_t i = 0; i < need.count; ++i) {
      const uint64_t shard = need.first_shard + i;
      if (shard < logs.size() && !logs[shard].had_on_disk(stands_[need.first + i].synced)) return shard;
    }
  }
  return std::nullopt;
}

CommonEnds common_ends(std::span<const LogNeeds> logs) {
  CommonEnds common;
  for (const LogNeeds& log : logs) {
    common.ends.push_back(log.end());
    if (!common.shard_with_loss) common.shard_with_loss = log.shard_with_loss(logs);
  }
  bool is_changed = true;
  while (is_changed) {
    is_changed = false;
    for (size_t shard = 0; shard < logs.size(); ++shard) {
      const uint64_t end = std::min(common.ends[shard], logs[shard].end_among(logs, common.ends));
      is_changed |= end != common.ends[shard];
      common.ends[shard] = end;
    }
  }
  return common;
}

}  // namespace refract::storage
