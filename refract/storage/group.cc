// SPDX-License-Identifier: Apache-2.0
#include "refract/storage/group.h"

#include <algorithm>
#include <cstring>

#include "refract/base/check.h"

namespace refract::storage {
namespace {

std::byte* copy_to(std::byte* to, std::span<const std::byte> bytes) noexcept {
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return to + bytes.size();
}

}  // namespace

uint64_t group_bytes(std::span<const Record> changes) noexcept {
  uint64_t bytes = sizeof(RecordHeader);
  for (const Record& change : changes) bytes += group_change_bytes(change.key.size(), change.value.size());
  return bytes;
}

uint64_t encode_group(const GroupPlace& group, std::span<const Record> changes, uint64_t key_of_log,
                      std::byte* place) noexcept {
  const bool is_of_transaction = group.role.kind != RecordKind::kGroup;
  REFRACT_DCHECK(changes.empty() ? group.role.kind == RecordKind::kDecided
                                 : changes.front().stamp > group.number);
  const std::span<const std::byte> needs = group.role.needs;
  REFRACT_DCHECK(may_have_key(group.role.kind, needs.size()));
  const uint64_t bytes = group_bytes(changes) + needs.size();
  RecordHeader header{.checksum = 0,
                      .position = group.position,
                      .stamp = group.number,
                      .synced_position = group.synced_position,
                      .expires_wall_ns = changes.empty() ? group.number : changes.back().stamp,
                      .client = group.role.place,
                      .sequence = group.role.number,
                      .value_bytes = static_cast<uint32_t>(group_bytes(changes) - sizeof(RecordHeader)),
                      .key_bytes = static_cast<uint16_t>(needs.size()),
                      .kind = group.role.kind,
                      .form = RecordForm::kInline};
  std::byte* next = copy_to(place + sizeof(header), needs);
  for (const Record& change : changes) {
    REFRACT_DCHECK(change.form == RecordForm::kInline && !change.key.empty());
    const bool is_identified = change.client != 0 && !is_of_transaction;
    if (is_identified) header.client = change.client;
    if (is_identified) header.sequence = change.sequence;
    const GroupChange one{.stamp = change.stamp,
                          .expires_wall_ns = change.expires_wall_ns,
                          .value_bytes = static_cast<uint32_t>(change.value.size()),
                          .key_bytes = static_cast<uint16_t>(change.key.size()),
                          .kind = change.kind,
                          .identified = static_cast<uint8_t>(is_identified ? 1 : 0)};
    std::byte* const end = next + group_change_bytes(change.key.size(), change.value.size());
    // The zero bytes at the end, before they are partly covered.
    std::memset(end - kRecordUnit, 0, kRecordUnit);
    next = copy_to(next, std::as_bytes(std::span(&one, 1)));
    next = copy_to(next, change.key);
    copy_to(next, change.value);
    next = end;
  }
  std::memcpy(place, &header, sizeof(header));
  seal_record(place, bytes, key_of_log);
  return bytes;
}

std::optional<Record> GroupReader::next() noexcept {
  GroupChange one;
  if (left_.size() < sizeof(one)) return std::nullopt;
  std::memcpy(&one, left_.data(), sizeof(one));
  const bool is_put = one.kind == RecordKind::kPut;
  const bool is_mark = one.kind == RecordKind::kMark && group_.kind == RecordKind::kPrepared;
  const bool has_kind = is_put || ((one.kind == RecordKind::kErase || is_mark) && one.value_bytes == 0);
  if (!has_kind || one.identified > (has_identity_ ? 0 : 1)) return std::nullopt;
  if (one.stamp <= last_stamp_ || one.key_bytes == 0) return std::nullopt;
  const uint64_t bytes = group_change_bytes(one.key_bytes, one.value_bytes);
  if (bytes > left_.size()) return std::nullopt;
  const std::span<const std::byte> text = left_.subspan(sizeof(one));
  left_ = left_.subspan(bytes);
  last_stamp_ = one.stamp;
  const bool is_identified = one.identified != 0;
  has_identity_ |= is_identified;
  return Record{.kind = one.kind,
                .position = group_.position,
                .stamp = one.stamp,
                .synced_position = group_.synced_position,
                .expires_wall_ns = one.expires_wall_ns,
                .client = is_identified ? group_.client : 0,
                .sequence = is_identified ? group_.sequence : 0,
                .key = text.first(one.key_bytes),
                .value = text.subspan(one.key_bytes, one.value_bytes),
                .value_bytes = one.value_bytes};
}

bool is_sound_group(const Record& group) noexcept {
  GroupReader changes(group);
  while (changes.next()) {
  }
  return changes.is_complete();
}

}  // namespace refract::storage
