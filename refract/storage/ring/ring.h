// SPDX-License-Identifier: Apache-2.0
// A Ring is where a shard leaves its changes for its log: memory of a file that outlives the processes, so
// that what was appended is safe from the death of all of them, at the price of a copy.
//
// The file (ring_file.h) is mapped twice in a row, so that a record never wraps and any run of records is one
// span. Ring positions count bytes since the ring was begun; log positions (record.h) run ahead of them by
// the values that were given by reference.
//
//   (L1) A record is whole before `appended` is published, and stays as it is until `taken` has passed it.
//   (L2) Where the last record begins is stored before `appended`: so a process that finds the ring after a
//        crash knows the last record, or knows that none was published since the one before had been dealt
//        with. A group (group.h) is one record, so all of it is published by that one store.
//   (L3) `taken` and the log position that goes with it change together: two marks, used in turn, and a word
//        that says which one counts.
//   (L4) The file's `taken` is stored before the room is given back to the shard.
//   (L5) A ring that is not in use holds nothing. It is in use from when the log has a segment for its first
//        record; it is begun while it is not.
//
// Threads: append side and take side are one thread each, and may be different ones. Nothing blocks,
// allocates or calls the system but open and close.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include "refract/base/boot_id.h"
#include "refract/base/report.h"
#include "refract/memory/remote_visible.h"
#include "refract/storage/group.h"
#include "refract/storage/record.h"

namespace refract::storage {

inline constexpr uint64_t kRingMagic = 0x31'47'4e'49'52'46'45'52;  // "REFRING1", little endian.
extern const uint32_t kRingVersion;                                // versions.cc
inline constexpr uint64_t kRingBytesMin = uint64_t{1} << 20;
inline constexpr uint64_t kRingBytesDefault = uint64_t{16} << 20;

// Up to where the records were taken into segments: in ring positions and in log positions.
struct RingMark {
  uint64_t taken;
  uint64_t log_position;
};

// Where a ring's file lies. A copy of the folder lies elsewhere.
struct RingHome {
  uint64_t device;
  uint64_t folder_inode;
  uint64_t file_inode;
  friend bool operator==(const RingHome&, const RingHome&) noexcept = default;
};

// The file's first page; behind it come ring_bytes of records.
struct RingHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t shard;
  std::array<std::byte, 16> store;
  std::array<std::byte, 16> boot;  // Of the host; the ring of an earlier one promises nothing.
  uint64_t ring_bytes;
  uint64_t number;    // Drawn when it was made; the folder's page has it as long as this ring is in use.
  uint64_t checksum;  // Over magic to number.
  RingHome home;
  uint64_t failure;    // Not 0: the log failed, and what was taken may be missing from the disk.
  uint64_t is_in_use;  // 0: it holds nothing (L5).
  uint64_t reserved_identity[2];
  uint64_t last;      // Where the last record begins, or, in the middle of an append, the one to come.
  uint64_t appended;  // Where the last whole record ends.
  uint64_t reserved_append[6];
  uint64_t mark_index;  // Which mark counts.
  RingMark marks[2];
  uint64_t reserved_take[3];
  uint64_t reserved_end[480];
};
static_assert(sizeof(RingHeader) == 4096 && std::is_trivially_copyable_v<RingHeader>);
static_assert(std::has_unique_object_representations_v<RingHeader>);
static_assert(offsetof(RingHeader, number) == 56 && offsetof(RingHeader, failure) == 96);
static_assert(offsetof(RingHeader, last) == 128 && offsetof(RingHeader, mark_index) == 192);

// The checksum of a header's own facts, which no server changes.
[[nodiscard]] uint64_t checksum_of(const RingHeader& header) noexcept;

class RingFile;

class Ring {
 public:
  // Maps it; the descriptor is not needed any more. kCorrupt: it is in use, and a record in it is damaged.
  [[nodiscard]] static Reported<Ring> open(const RingFile& file);
  // Likewise, and makes it one that is_lost().
  [[nodiscard]] static Reported<Ring> open_emptied(const RingFile& file);

  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  Ring(Ring&& other) noexcept;
  Ring& operator=(Ring&& other) noexcept;
  // Unmaps; the file stays.
  ~Ring();

  // Whether it holds anything (L5).
  [[nodiscard]] bool is_in_use() const noexcept { return observe_u64(&header_->is_in_use) != 0; }
  // What it holds does not count: it is not in use any more, and nothing is lost.
  void empty() noexcept;
  // It held something, which was damaged or cut.
  [[nodiscard]] bool is_lost() const noexcept { return !is_in_use() && failed(); }
  // Makes it empty, with nothing before this position of the log; failed() stays as it is. REQUIRES: neither
  // side works on it, and it is not in use.
  void begin(uint64_t log_position) noexcept;
  // The log has a segment where it begins.
  void set_in_use() noexcept { publish_u64(&header_->is_in_use, 1); }

  // --- The shard's side. ---

  [[nodiscard]] bool has_room(uint64_t stored_bytes) const noexcept {
    return bytes_ - (appended_ - observe_u64(&taken_)) >= stored_bytes;
  }
  // Copies the record behind the last one; its position must be log_end(). REQUIRES: has_room() for its
  // stored_bytes.
  void append(const Record& record) noexcept;
  // Likewise all of these, as one record. REQUIRES: has_room() for their group_bytes(); what encode_group()
  // asks for.
  void append_group(const GroupPlace& group, std::span<const Record> changes) noexcept;
  // Where the next record will begin, in the log and in the ring.
  [[nodiscard]] uint64_t log_end() const noexcept { return log_end_; }
  [[nodiscard]] uint64_t appended() const noexcept { return appended_; }
  // The last record, whether taken or not; it may be one that its table never made (L2). Nothing where no
  // record is known. Its spans stay until the next append.
  [[nodiscard]] std::optional<Record> last_record() const noexcept;

  // --- The log's side. ---

  [[nodiscard]] uint64_t observe_appended() const noexcept { return observe_u64(&header_->appended); }
  [[nodiscard]] RingMark mark() const noexcept { return mark_; }
  // `count` bytes from a position on, in one piece. REQUIRES: count <= bytes().
  [[nodiscard]] std::span<const std::byte> bytes_at(uint64_t position, uint64_t count) const noexcept {
    return {data_ + position % bytes_, count};
  }
  // Everything before `mark` may be overwritten from now on.
  void take(RingMark mark) noexcept;
  // Says, also to the process that takes this ring up, that the log failed; or that it is sound again.
  void set_failed(bool failed) noexcept { publish_u64(&header_->failure, failed ? 1 : 0); }
  [[nodiscard]] bool failed() const noexcept { return observe_u64(&header_->failure) != 0; }

  // --- Both. ---

  [[nodiscard]] uint64_t observe_taken() const noexcept { return observe_u64(&taken_); }
  [[nodiscard]] uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] uint64_t key_of_log() const noexcept { return key_of_log_; }

 private:
  Ring() = default;
  [[nodiscard]] static Reported<Ring> map(const RingFile& file);
  // Reads what stands between `taken` and `appended`; false: not all of it are records.
  [[nodiscard]] bool find_end() noexcept;
  void unmap() noexcept;
  [[nodiscard]] std::byte* begin_append() noexcept;
  void publish_appended(uint64_t stored, uint64_t log_bytes) noexcept;

  RingHeader* header_ = nullptr;  // Followed by the records, and these a second time.
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t key_of_log_ = 0;
  // The shard's own, on a line of their own.
  alignas(64) uint64_t appended_ = 0;
  uint64_t log_end_ = 0;
  // The log's own; taken_ is what the shard looks at.
  alignas(64) uint64_t taken_ = 0;
  RingMark mark_ = {};
};

}  // namespace refract::storage
