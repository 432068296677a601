// SPDX-License-Identifier: Apache-2.0
// Several changes of one log that take effect together: a group. It is one record, whose value are the
// changes, one behind the other. So one checksum covers all of them, one store publishes them in a ring, and
// no segment's end falls between two: a reader finds a group whole, or does not find it.
//
//   record header (kGroup, no key) | what it needs | change | change | ...
//   change: GroupChange | key | value | zero bytes up to a multiple of eight
//
// The record's own stamp is the group's number, below those of its changes; client and sequence are those of
// the change that bears an identity. Those of a transaction over several shards (kPrepared, kDecided) have
// its name there, and no identity. docs/formats/log.md has a worked example.
//
// Threads: nothing here has state. Nothing allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include "refract/base/units.h"
#include "refract/storage/record.h"

namespace refract::storage {

struct GroupChange {
  uint64_t stamp;  // Above the one before, and above the record's own.
  uint64_t expires_wall_ns;
  uint32_t value_bytes;
  uint16_t key_bytes;
  RecordKind kind;     // kPut, kErase; in a kPrepared kMark.
  uint8_t identified;  // 1: client and sequence of the record are its; else 0.
};
static_assert(sizeof(GroupChange) == 24 && std::is_trivially_copyable_v<GroupChange>);
static_assert(std::has_unique_object_representations_v<GroupChange>, "no padding may be stored");
static_assert(offsetof(GroupChange, value_bytes) == 16 && offsetof(GroupChange, identified) == 23);

// From change to change within a group.
[[nodiscard]] constexpr uint64_t group_change_bytes(uint64_t key_bytes, uint64_t value_bytes) noexcept {
  return round_up(sizeof(GroupChange) + key_bytes + value_bytes, kRecordUnit);
}
// What a group of so many changes takes at most, whose keys and values together have so many bytes.
[[nodiscard]] constexpr uint64_t group_bytes_max(uint64_t changes, uint64_t bytes) noexcept {
  return sizeof(RecordHeader) + bytes + changes * (sizeof(GroupChange) + kRecordUnit - 1);
}

// What a group is to a transaction over several shards: kPrepared or kDecided, and its name. kGroup: it is
// all by itself.
struct GroupRole {
  RecordKind kind = RecordKind::kGroup;
  uint64_t place = 0;
  uint64_t number = 0;
  std::span<const std::byte> needs = {};  // Of kDecided and kSettled: log/common_end.h. Empty: nothing.
};
// Whose log has the decision.
[[nodiscard]] constexpr uint64_t home_shard_of(uint64_t place) noexcept {
  return (place >> 48) - 1;
}
// Whether several nodes have parts of it: then the home's member is in its place (docs/design/070).
[[nodiscard]] constexpr bool is_over_nodes(uint64_t place) noexcept {
  return (place >> 40 & 0xff) != 0;
}
// As the home's own shards name it.
[[nodiscard]] constexpr uint64_t place_at_home(uint64_t place) noexcept {
  return place & ~(uint64_t{0xff} << 40);
}

// Where a group is appended.
struct GroupPlace {
  uint64_t position = 0;
  uint64_t number = 0;  // Its stamp.
  uint64_t synced_position = 0;
  GroupRole role = {};
};
// Exactly what encode_group() writes, of a role that needs nothing.
[[nodiscard]] uint64_t group_bytes(std::span<const Record> changes) noexcept;
// Writes the group and returns its bytes. Of the changes count kind, stamp, expiry, identity, key and value.
// REQUIRES: room for them at `place`; at least one change, but for kDecided; kPut and kErase alone, all
// inline; stamps rise from above the number on; at most one has a client, and none where there is a role.
uint64_t encode_group(const GroupPlace& group, std::span<const Record> changes, uint64_t key_of_log,
                      std::byte* place) noexcept;

// Hands out the changes of a group as records of their own.
class GroupReader {
 public:
  // What `group` refers to outlives the reader.
  explicit GroupReader(const Record& group) noexcept
      : group_(group),
        left_(group.value),
        last_stamp_(group.stamp),
        has_identity_(group.kind != RecordKind::kGroup) {}

  // Nothing: there is none any more, or what follows is none. With the position of the group.
  [[nodiscard]] std::optional<Record> next() noexcept;
  // All has been handed out, and the last one was what the record says.
  [[nodiscard]] bool is_complete() const noexcept { return left_.empty() && last_stamp_ == group_.group_end; }

 private:
  Record group_;
  std::span<const std::byte> left_;
  uint64_t last_stamp_;
  bool has_identity_;  // One of them had it, or none may.
};

// Whether a record of this kind, whose checksum is right, has what a group has. Any bytes are safe.
[[nodiscard]] bool is_sound_group(const Record& group) noexcept;

}  // namespace refract::storage
