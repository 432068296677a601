// SPDX-License-Identifier: Apache-2.0
#include "refract/storage/record.h"

#include <cstring>

#include "refract/base/check.h"
#include "refract/base/hash.h"
#include "refract/base/prng.h"
#include "refract/storage/group.h"

namespace refract::storage {
namespace {

constexpr size_t kChecksumBytes = sizeof(RecordHeader::checksum);

// Unseeded: a seed costs a secret of its own for everything above 240 bytes. What it would tell apart, the
// key of the log does.
[[nodiscard]] uint64_t checksum_of(const std::byte* record, uint64_t bytes, uint64_t key_of_log) noexcept {
  return XXH3_64bits(record + kChecksumBytes, bytes - kChecksumBytes) ^ key_of_log;
}

constexpr uint64_t kHappened = 1;
constexpr uint64_t kNeverHappens = 2;

// What stands where puts have their expiry.
[[nodiscard]] uint64_t expiry_word_of(const Record& record) noexcept {
  if (record.kind == RecordKind::kHosted) return record.store.bits;
  if (record.kind == RecordKind::kSettled) return record.has_happened ? kHappened : kNeverHappens;
  return is_group(record.kind) ? record.group_end : record.expires_wall_ns;
}

[[nodiscard]] RecordHeader header_of(const Record& record) noexcept {
  return {.checksum = 0,
          .position = record.position,
          .stamp = record.stamp,
          .synced_position = record.synced_position,
          .expires_wall_ns = expiry_word_of(record),
          .client = record.client,
          .sequence = record.sequence,
          .value_bytes = static_cast<uint32_t>(record.value_bytes),
          .key_bytes = static_cast<uint16_t>(record.key.size()),
          .kind = record.kind,
          .form = record.form};
}

[[nodiscard]] bool is_sane_kind(const RecordHeader& header) noexcept {
  const bool is_inline = header.form == RecordForm::kInline;
  const bool has_changes = header.expires_wall_ns > header.stamp;
  switch (header.kind) {
    case RecordKind::kPut:
      return true;
    case RecordKind::kErase:
      return header.value_bytes == 0 && is_inline;
    case RecordKind::kHosted:
      return header.expires_wall_ns != 0 && is_inline;
    case RecordKind::kGroup:
      return has_changes && is_inline;
    case RecordKind::kPrepared:
      return has_changes && is_inline && header.client != 0;
    case RecordKind::kDecided:
      return (has_changes || header.expires_wall_ns == header.stamp) && is_inline && header.client != 0;
    case RecordKind::kSettled:
      return (header.expires_wall_ns == kHappened || header.expires_wall_ns == kNeverHappens) &&
             header.value_bytes == 0 && is_inline && header.client != 0;
    case RecordKind::kMark:
      return false;
  }
  return false;
}

[[nodiscard]] bool has_sane_fields(const RecordHeader& header) noexcept {
  const bool kind = is_sane_kind(header);
  const bool form = header.form == RecordForm::kInline || header.form == RecordForm::kReference ||
                    header.form == RecordForm::kAbsent;
  const bool key = may_have_key(header.kind, header.key_bytes);
  return kind && form && key && header.value_bytes <= kRecordValueBytesMax;
}

}  // namespace

uint64_t log_key(const StoreId& store, uint32_t shard) noexcept {
  return hash_key(store, mix(shard));
}

void seal_record(std::byte* record, uint64_t bytes, uint64_t key_of_log) noexcept {
  const uint64_t checksum = checksum_of(record, bytes, key_of_log);
  std::memcpy(record, &checksum, sizeof(checksum));
}

uint64_t encode_record(const Record& record, uint64_t key_of_log, std::byte* place) noexcept {
  REFRACT_DCHECK(record.position % kRecordUnit == 0);
  REFRACT_DCHECK(may_have_key(record.kind, record.key.size()));
  REFRACT_DCHECK(record.key.size() <= kRecordKeyBytesMax);
  const uint64_t bytes = stored_bytes(record.form, record.key.size(), record.value_bytes);
  // The zero bytes at the end, before they are partly covered.
  std::memset(place + bytes - kRecordUnit, 0, kRecordUnit);
  const RecordHeader header = header_of(record);
  std::memcpy(place, &header, sizeof(header));
  std::byte* next = place + sizeof(header);
  if (record.form == RecordForm::kReference) {
    std::memcpy(next, &record.reference, sizeof(record.reference));
    next += sizeof(record.reference);
  }
  if (!record.key.empty()) std::memcpy(next, record.key.data(), record.key.size());
  next += record.key.size();
  if (record.form == RecordForm::kInline && !record.value.empty()) {
    std::memcpy(next, record.value.data(), record.value.size());
  }
  seal_record(place, bytes, key_of_log);
  return bytes;
}

RecordHeader seal_header(const Record& record, uint64_t key_of_log) noexcept {
  REFRACT_DCHECK(record.form == RecordForm::kInline && record.value.size() == record.value_bytes);
  RecordHeader header = header_of(record);
  const uint64_t used = sizeof(header) + record.key.size() + record.value.size();
  constexpr std::byte kZeros[kRecordUnit] = {};
  std::byte raw[sizeof(header)];
  std::memcpy(raw, &header, sizeof(header));
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, raw + kChecksumBytes, sizeof(raw) - kChecksumBytes);
  XXH3_64bits_update(&state, record.key.data(), record.key.size());
  XXH3_64bits_update(&state, record.value.data(), record.value.size());
  XXH3_64bits_update(&state, kZeros, round_up(used, kRecordUnit) - used);
  header.checksum = XXH3_64bits_digest(&state) ^ key_of_log;
  return header;
}

std::string_view text(RecordFault fault) noexcept {
  switch (fault) {
    case RecordFault::kNone:
      return "nothing is wrong";
    case RecordFault::kEnd:
      return "the bytes end within a record";
    case RecordFault::kPosition:
      return "no record begins there";
    case RecordFault::kFields:
      return "its header makes no sense";
    case RecordFault::kChecksum:
      return "the checksum does not match";
  }
  return "unknown";
}

RecordFault peek_record(std::span<const std::byte> bytes, uint64_t position, RecordHeader& header) noexcept {
  REFRACT_DCHECK(bytes.size() >= sizeof(RecordHeader));
  RecordHeader found;
  std::memcpy(&found, bytes.data(), sizeof(found));
  if (found.position != position) return RecordFault::kPosition;
  if (!has_sane_fields(found)) return RecordFault::kFields;
  header = found;
  return RecordFault::kNone;
}

RecordFault decode_record(std::span<const std::byte> bytes, uint64_t position, uint64_t key_of_log,
                          Record& record) noexcept {
  if (bytes.size() < sizeof(RecordHeader)) return RecordFault::kEnd;
  RecordHeader header;
  const RecordFault fault = peek_record(bytes, position, header);
  if (fault != RecordFault::kNone) return fault;
  const uint64_t stored = stored_bytes(header.form, header.key_bytes, header.value_bytes);
  if (stored > bytes.size()) return RecordFault::kEnd;
  if (checksum_of(bytes.data(), stored, key_of_log) != header.checksum) return RecordFault::kChecksum;
  uint64_t at = sizeof(header);
  const bool is_hosted = header.kind == RecordKind::kHosted;
  const bool is_group = storage::is_group(header.kind);
  const bool is_settled = header.kind == RecordKind::kSettled;
  Record found{.kind = header.kind,
               .form = header.form,
               .position = header.position,
               .stamp = header.stamp,
               .synced_position = header.synced_position,
               .expires_wall_ns = is_hosted || is_group || is_settled ? 0 : header.expires_wall_ns,
               .client = header.client,
               .sequence = header.sequence,
               .key = {},
               .value = {},
               .value_bytes = header.value_bytes,
               .reference = 0,
               .store = {is_hosted ? header.expires_wall_ns : 0},
               .group_end = is_group ? header.expires_wall_ns : 0,
               .has_happened = is_settled && header.expires_wall_ns == kHappened};
  if (header.form == RecordForm::kReference) {
    std::memcpy(&found.reference, bytes.data() + at, sizeof(found.reference));
    at += sizeof(found.reference);
  }
  found.key = bytes.subspan(at, header.key_bytes);
  if (header.form == RecordForm::kInline) {
    found.value = bytes.subspan(at + header.key_bytes, header.value_bytes);
  }
  if (is_group && !is_sound_group(found)) return RecordFault::kFields;
  record = found;
  return RecordFault::kNone;
}

LogMark make_mark(uint64_t position, uint64_t stamp, uint64_t continued_at, uint64_t key_of_log) noexcept {
  LogMark mark = {};
  mark.position = position;
  mark.stamp = stamp;
  mark.continued_at = continued_at;
  mark.kind = kLogMarkKind;
  std::byte raw[sizeof(mark)];
  std::memcpy(raw, &mark, sizeof(mark));
  mark.checksum = checksum_of(raw, sizeof(raw), key_of_log);
  return mark;
}

std::optional<LogMark> decode_mark(std::span<const std::byte> bytes, uint64_t position,
                                   uint64_t key_of_log) noexcept {
  LogMark mark;
  if (bytes.size() < sizeof(mark)) return std::nullopt;
  std::memcpy(&mark, bytes.data(), sizeof(mark));
  if (mark.position != position || mark.kind != kLogMarkKind) return std::nullopt;
  if (checksum_of(bytes.data(), sizeof(mark), key_of_log) != mark.checksum) return std::nullopt;
  return mark;
}

}  // namespace refract::storage
