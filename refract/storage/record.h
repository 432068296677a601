// SPDX-License-Identifier: Apache-2.0
// How one change of an entry lies in a log's ring, in its segments and in a snapshot: a header of 64 bytes,
// the key, the value, zero bytes up to a multiple of eight. docs/formats/log.md has a worked example.
//
// A record says itself where it stands. Its checksum covers that and everything else in it, so that bytes
// which an earlier use of the file left there are no record at this place, whatever they are. The checksum is
// XXH3 (64 bits, its own secret) over all bytes behind the checksum's, xor the key of the log (log_key):
// records of another node's log, or of another shard's, fail.
//
// In a ring the value may be given by reference, where it is too large to be copied there; the log then takes
// the room that it will have in a segment. In a segment the value may be absent: then its room is there, with
// bytes that mean nothing.
//
// Threads: nothing here has state. Nothing allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "refract/base/units.h"
#include "refract/memory/store_name.h"

namespace refract::storage {

// Which store the files belong to; drawn at random when it is made.
using StoreId = std::array<std::byte, 16>;

enum class RecordKind : uint8_t {
  kPut = 1,
  kErase = 2,
  // 3 is a mark's (kLogMarkKind).
  kHosted = 4,  // A change of a store beside the key-value table; key and value are that store's to read.
  kGroup = 5,   // Several puts and erasures that take effect together: group.h. Always inline, without a key.
  // Of transactions over several shards, each of which client and sequence name by its place and its number.
  kPrepared = 6,  // A group that takes effect if the home's log has a kDecided of this name.
  kDecided = 7,   // The home's own group, which may be empty: all of the transaction has happened.
  kSettled = 8,   // A kPrepared has taken effect, or never will: header alone.
  // Inside a kPrepared whose home is another node, alone: a key that it holds without a change, and what for
  // (docs/design/070) in place of the expiry.
  kMark = 9,
};
// Whether it is a group: its value are changes.
[[nodiscard]] constexpr bool is_group(RecordKind kind) noexcept {
  return kind == RecordKind::kGroup || kind == RecordKind::kPrepared || kind == RecordKind::kDecided;
}
// Whether it may have a key of so many bytes. All but groups, and what is said of one, have one; where others
// have theirs, kDecided and kSettled have what they need of other shards' logs, if anything
// (log/common_end.h).
[[nodiscard]] constexpr bool may_have_key(RecordKind kind, uint64_t bytes) noexcept {
  if (kind == RecordKind::kDecided) return bytes % sizeof(uint64_t) == 0;
  if (kind == RecordKind::kSettled) return bytes == 0 || bytes == 2 * sizeof(uint64_t);
  return is_group(kind) == (bytes == 0);
}
enum class RecordForm : uint8_t {
  kInline = 1,     // Header, key, value.
  kReference = 2,  // Header, the value's offset in the space (8 bytes), key. In rings only.
  kAbsent = 3,  // Header, key. A later record of the key stands behind it (docs/design/025-log.md, item 3).
};

inline constexpr uint64_t kRecordUnit = 8;
inline constexpr uint64_t kRecordKeyBytesMax = 65'535;
inline constexpr uint64_t kRecordValueBytesMax = 512 * kMiB;

struct RecordHeader {
  uint64_t checksum;
  uint64_t position;         // Of this record's first byte in the log, or in the snapshot.
  uint64_t stamp;            // Higher than all before it in the log.
  uint64_t synced_position;  // When it was appended, fdatasync had confirmed everything before this position.
  uint64_t expires_wall_ns;  // 0: never. Of kHosted: the store's name; of a group: its last stamp; of
                             // kSettled: 1, it has taken effect, 2, it never will.
  uint64_t client;           // Which client asked for the change, under which number; 0: unknown.
  uint64_t sequence;
  uint32_t value_bytes;
  uint16_t key_bytes;
  RecordKind kind;
  RecordForm form;
};
static_assert(sizeof(RecordHeader) == 64 && std::is_trivially_copyable_v<RecordHeader>);
static_assert(std::has_unique_object_representations_v<RecordHeader>, "no padding may be stored");
static_assert(offsetof(RecordHeader, synced_position) == 24 && offsetof(RecordHeader, value_bytes) == 56);
static_assert(offsetof(RecordHeader, key_bytes) == 60 && offsetof(RecordHeader, form) == 63);

// What a log leaves behind its last record when nothing follows: up to here fdatasync has confirmed
// everything. The next record is written over it. No sync is made for it: it comes to the disk by itself,
// soon, and where a crash keeps it from there, nothing is known, as without it (docs/design/025-log.md, item
// 5).
struct LogMark {
  uint64_t checksum;      // As of a record.
  uint64_t position;      // Where it stands, and what was confirmed.
  uint64_t stamp;         // The highest in front of it; 0: not known.
  uint64_t continued_at;  // Not 0: the log continues in the segment with this first position.
  uint64_t reserved[3];
  uint32_t value_bytes;  // 0
  uint16_t key_bytes;    // 0, so that it can never be a record.
  uint8_t kind;          // kLogMarkKind
  uint8_t form;          // 0
};
static_assert(sizeof(LogMark) == sizeof(RecordHeader) && std::is_trivially_copyable_v<LogMark>);
static_assert(std::has_unique_object_representations_v<LogMark>, "no padding may be stored");
static_assert(offsetof(LogMark, position) == offsetof(RecordHeader, position));
static_assert(offsetof(LogMark, kind) == offsetof(RecordHeader, kind));

inline constexpr uint8_t kLogMarkKind = 3;

// A change as its fields; the spans belong to the caller.
struct Record {
  RecordKind kind = RecordKind::kPut;
  RecordForm form = RecordForm::kInline;
  uint64_t position = 0;
  uint64_t stamp = 0;
  uint64_t synced_position = 0;
  uint64_t expires_wall_ns = 0;
  uint64_t client = 0;
  uint64_t sequence = 0;
  std::span<const std::byte> key = {};
  // kInline only; otherwise empty, and value_bytes says how many there are.
  std::span<const std::byte> value = {};
  uint64_t value_bytes = 0;
  uint64_t reference = 0;     // kReference: where the value lies in the space.
  StoreName store = {};       // kHosted: whose change it is.
  uint64_t group_end = 0;     // A group: the stamp of its last change; `stamp` is below that of the first.
  bool has_happened = false;  // kSettled.
};

// The highest in it.
[[nodiscard]] constexpr uint64_t last_stamp_of(const Record& record) noexcept {
  return is_group(record.kind) ? record.group_end : record.stamp;
}
[[nodiscard]] constexpr uint64_t last_stamp_of(const RecordHeader& header) noexcept {
  return is_group(header.kind) ? header.expires_wall_ns : header.stamp;
}

// From record to record in the log, whatever the form.
[[nodiscard]] constexpr uint64_t log_bytes(uint64_t key_bytes, uint64_t value_bytes) noexcept {
  return round_up(sizeof(RecordHeader) + key_bytes + value_bytes, kRecordUnit);
}
// What the record itself takes where it stands: less than log_bytes where the value is not in it.
[[nodiscard]] constexpr uint64_t stored_bytes(RecordForm form, uint64_t key_bytes,
                                              uint64_t value_bytes) noexcept {
  const uint64_t reference = form == RecordForm::kReference ? sizeof(uint64_t) : 0;
  const uint64_t value = form == RecordForm::kInline ? value_bytes : 0;
  return round_up(sizeof(RecordHeader) + reference + key_bytes + value, kRecordUnit);
}

[[nodiscard]] uint64_t log_key(const StoreId& store, uint32_t shard) noexcept;

// Writes the record and returns its stored_bytes. REQUIRES: room for them at `place`, lengths within the
// limits, `position` a multiple of kRecordUnit, value_bytes == value.size() for kInline.
uint64_t encode_record(const Record& record, uint64_t key_of_log, std::byte* place) noexcept;

// Gives a record that lies complete at `record`, header first, its checksum.
void seal_record(std::byte* record, uint64_t bytes, uint64_t key_of_log) noexcept;

// The header of a record whose parts lie apart, with its checksum: for a large value that is written from
// where it is. Behind key and value come zero bytes up to log_bytes. REQUIRES: as above, and form kInline.
[[nodiscard]] RecordHeader seal_header(const Record& record, uint64_t key_of_log) noexcept;

enum class RecordFault : uint8_t {
  kNone,
  kEnd,       // Fewer bytes than a header, or than the header announces.
  kPosition,  // The header names another place: older bytes, or none.
  kFields,    // Kind, form or a length is none that is ever written.
  kChecksum,
};
// "the checksum does not match", for sentences.
[[nodiscard]] std::string_view text(RecordFault fault) noexcept;

// Looks at the header alone, so that a reader learns how many bytes to bring. kNone promises sane lengths and
// the right position, no more. REQUIRES: bytes.size() >= sizeof(RecordHeader).
[[nodiscard]] RecordFault peek_record(std::span<const std::byte> bytes, uint64_t position,
                                      RecordHeader& header) noexcept;

// The record at the start of `bytes`, whose position in the log is `position`; the spans in `record` point
// into `bytes`. Anything but kNone leaves `record` as it was. Any bytes are safe.
[[nodiscard]] RecordFault decode_record(std::span<const std::byte> bytes, uint64_t position,
                                        uint64_t key_of_log, Record& record) noexcept;

// What follows from the arguments is filled in: checksum, kind.
[[nodiscard]] LogMark make_mark(uint64_t position, uint64_t stamp, uint64_t continued_at,
                                uint64_t key_of_log) noexcept;
// Nothing: no mark stands there. Any bytes are safe.
[[nodiscard]] std::optional<LogMark> decode_mark(std::span<const std::byte> bytes, uint64_t position,
                                                 uint64_t key_of_log) noexcept;

}  // namespace refract::storage
