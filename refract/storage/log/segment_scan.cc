// SPDX-License-Identifier: Apache-2.0
#include "refract/storage/log/segment_scan.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "refract/base/units.h"

namespace refract::storage {
namespace {

constexpr uint64_t kWindowBytes = kMiB;

// For a record. A limit that a header made up may be the largest there is.
constexpr bool has_room(uint64_t position, uint64_t limit) noexcept {
  return position <= limit && limit - position >= sizeof(RecordHeader);
}

}  // namespace

Reported<std::span<const std::byte>> ReadWindow::at(uint64_t offset, uint64_t bytes) {
  if (offset < begin_ || offset + bytes > begin_ + filled_) {
    const uint64_t rest = file_bytes_ - std::min(offset, file_bytes_);
    const uint64_t wanted = std::max(bytes, std::min(kWindowBytes, rest));
    if (buffer_.size() < wanted) buffer_.resize(wanted);
    const Reported<uint64_t> read = file_.read(offset, buffer_);
    if (!read) return report(read.error());
    begin_ = offset;
    filled_ = *read;
  }
  const uint64_t skip = offset - begin_;
  return std::span<const std::byte>(buffer_).subspan(skip, std::min(bytes, filled_ - skip));
}

Reported<std::span<const std::byte>> ReadWindow::from(uint64_t offset, uint64_t bytes) {
  if (const auto read = at(offset, bytes); !read) return read;
  const uint64_t skip = offset - begin_;
  return std::span<const std::byte>(buffer_).subspan(skip, filled_ - skip);
}

Reported<RecordFault> SegmentScan::record_at(uint64_t position, uint64_t limit, Record& record) {
  const uint64_t offset = offset_of(position);
  Reported<std::span<const std::byte>> bytes = window_.at(offset, sizeof(RecordHeader));
  if (!bytes) return report(bytes.error());
  if (bytes->size() < sizeof(RecordHeader)) return RecordFault::kEnd;
  RecordHeader header = {};
  const RecordFault fault = peek_record(*bytes, position, header);
  if (fault != RecordFault::kNone) return fault;
  if (log_bytes(header.key_bytes, header.value_bytes) > limit - position) return RecordFault::kFields;
  if (header.form == RecordForm::kReference) return RecordFault::kFields;
  bytes = window_.at(offset, stored_bytes(header.form, header.key_bytes, header.value_bytes));
  if (!bytes) return report(bytes.error());
  return decode_record(*bytes, position, key_of_log_, record);
}

Reported<std::optional<LogMark>> SegmentScan::mark_at(uint64_t position) {
  const Reported<std::span<const std::byte>> bytes = window_.at(offset_of(position), sizeof(LogMark));
  if (!bytes) return report(bytes.error());
  return decode_mark(*bytes, position, key_of_log_);
}

Reported<uint64_t> SegmentScan::announced_bytes(uint64_t position, uint64_t limit) {
  const Reported<std::span<const std::byte>> bytes = window_.at(offset_of(position), sizeof(RecordHeader));
  if (!bytes) return report(bytes.error());
  RecordHeader header = {};
  if (bytes->size() < sizeof(header) || peek_record(*bytes, position, header) != RecordFault::kNone) return 0;
  return std::min(log_bytes(header.key_bytes, header.value_bytes), limit - position);
}

Reported<std::optional<SegmentScan::Sound>> SegmentScan::sound_at(uint64_t position, uint64_t limit) {
  Record record;
  const Reported<RecordFault> fault = record_at(position, limit, record);
  if (!fault) return report(fault.error());
  if (*fault == RecordFault::kNone) {
    return Sound{.position = position,
                 .bytes = log_bytes(record.key.size(), record.value_bytes),
                 .stamp = record.stamp,
                 .synced = record.synced_position};
  }
  if (*fault != RecordFault::kFields) return std::nullopt;
  const Reported<std::optional<LogMark>> mark = mark_at(position);
  if (!mark) return report(mark.error());
  if (!*mark) return std::nullopt;
  return Sound{.position = position,
               .bytes = kRecordUnit,
               .stamp = (*mark)->stamp,
               .synced = position,
               .is_mark = true};
}

// Records and marks alike say where they stand, and what a segment had in it before says something else: so
// whole segments are passed at the pace of memory.
Reported<uint64_t> SegmentScan::next_candidate(uint64_t position, uint64_t limit) {
  while (has_room(position, limit)) {
    const auto bytes = window_.from(offset_of(position), sizeof(RecordHeader));
    if (!bytes) return report(bytes.error());
    if (bytes->size() < sizeof(RecordHeader)) break;
    const std::byte* const said = bytes->data() + offsetof(RecordHeader, position);
    const uint64_t last = bytes->size() - sizeof(RecordHeader);
    for (uint64_t at = 0; at <= last; at += kRecordUnit, position += kRecordUnit) {
      uint64_t there;
      std::memcpy(&there, said + at, sizeof(there));
      if (there == position) return position;
    }
  }
  return limit;
}

Reported<std::optional<SegmentScan::Sound>> SegmentScan::next_sound(uint64_t position, uint64_t limit) {
  while (true) {
    const Reported<uint64_t> candidate = next_candidate(position + kRecordUnit, limit);
    if (!candidate) return report(candidate.error());
    position = *candidate;
    if (!has_room(position, limit)) return std::nullopt;
    Reported<std::optional<Sound>> sound = sound_at(position, limit);
    if (!sound || *sound) return sound;
  }
}

Reported<SegmentScan::Behind> SegmentScan::look_behind(uint64_t hole, uint64_t limit) {
  Behind behind{.end = hole};
  Reported<std::optional<Sound>> next = next_sound(hole, limit);
  while (true) {
    if (!next) return report(next.error());
    if (!*next) return behind;
    const Sound sound = **next;
    if (!behind.first) behind.first = sound;
    behind.records += sound.is_mark ? 0 : 1;
    if (!sound.is_mark) behind.end = sound.position + sound.bytes;
    if (sound.synced > hole) {
      behind.knows_synced = true;
      return behind;
    }
    const uint64_t position = sound.position + sound.bytes;
    if (!has_room(position, limit)) return behind;
    next = sound_at(position, limit);
    if (next && !*next) next = next_sound(position, limit);
  }
}

}  // namespace refract::storage
