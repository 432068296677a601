// SPDX-License-Identifier: Apache-2.0
// A Ring is where a shard leaves its changes for its log: memory of a file that outlives the processes, so
// that what was appended is safe from the death of all of them, at the price of a copy.
//
// The file lies on tmpfs, is allocated before it is mapped, has mode 0600, and is mapped twice in a row, so
// that a record never wraps and any run of records is one span. Ring positions count bytes since the file was
// made; log positions (record.h) run ahead of them by the values that were given by reference.
//
//   (L1) A record is whole before `appended` is published, and stays as it is until `taken` has passed it.
//   (L2) Where the last record begins is stored before `appended`: so whoever finds the ring behind a crash
//        knows the last record, or knows that none was published since the one before had been dealt with.
//   (L3) `taken` and the log position that goes with it change together: two marks, used in turn, and a word
//        that says which one counts.
//   (L4) The file's `taken` is stored before the room is given back to the shard.
//
// Threads: append side and take side are one thread each, and may be different ones. Nothing blocks,
// allocates or calls the system but open and close.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "refract/base/boot_id.h"
#include "refract/base/report.h"
#include "refract/memory/remote_visible.h"
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

// The file's first page; behind it come ring_bytes of records.
struct RingHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t shard;
  std::array<std::byte, 16> store;
  std::array<std::byte, 16> boot;  // Of the host; the ring of an earlier one promises nothing.
  uint64_t ring_bytes;
  uint64_t failure;   // Not 0: the log failed, and what was taken may be missing from the disk.
  uint64_t checksum;  // Over magic to ring_bytes.
  uint64_t reserved_identity[7];
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
static_assert(offsetof(RingHeader, last) == 128 && offsetof(RingHeader, mark_index) == 192);

struct RingSpec {
  std::string
      path;  // Empty: memory without a name, gone with the process. For tests, and where nothing else is.
  uint64_t bytes = kRingBytesDefault;  // A multiple of 4096. Of a file that exists, its own size counts.
  StoreId store = {};
  uint32_t shard = 0;
  BootId boot = {};
  uint64_t log_position = 0;  // Of a new ring: where the log goes on.
};

class Ring {
 public:
  // Makes the file anew, in place of any that is there.
  [[nodiscard]] static Reported<Ring> create(const RingSpec& spec);
  // Takes up a ring that a server left. kNotFound: there is none, or it is of an earlier boot of the host.
  // kCorrupt: it is damaged; kUnsupported: another version wrote it; kInUse: it belongs to another store.
  [[nodiscard]] static Reported<Ring> take_up(const RingSpec& spec);

  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  Ring(Ring&& other) noexcept;
  Ring& operator=(Ring&& other) noexcept;
  // Unmaps; the file stays.
  ~Ring();

  // --- The shard's side. ---

  [[nodiscard]] bool has_room(uint64_t stored_bytes) const noexcept {
    return bytes_ - (appended_ - observe_u64(&taken_)) >= stored_bytes;
  }
  // Copies the record behind the last one; its position must be log_end(). REQUIRES: has_room() for its
  // stored_bytes.
  void append(const Record& record) noexcept;
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
  // Says, also to whoever takes this ring up, that the log failed; or that it is sound again.
  void set_failed(bool failed) noexcept { publish_u64(&header_->failure, failed ? 1 : 0); }
  [[nodiscard]] bool failed() const noexcept { return observe_u64(&header_->failure) != 0; }

  // --- Both. ---

  [[nodiscard]] uint64_t observe_taken() const noexcept { return observe_u64(&taken_); }
  [[nodiscard]] uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] uint64_t key_of_log() const noexcept { return key_of_log_; }

 private:
  Ring() = default;
  [[nodiscard]] static Reported<Ring> map(int descriptor, const RingSpec& spec, uint64_t bytes);
  // Reads what stands between `taken` and `appended`; false: not all of it are records.
  [[nodiscard]] bool find_end() noexcept;
  void unmap() noexcept;

  RingHeader* header_ = nullptr;  // Followed by the records, and these once more.
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

// Of a ring file on tmpfs where there is one: "/dev/shm/refract-<first 16 digits of the store>-<shard>.ring".
// Empty where there is no tmpfs that can be written to; the log's own folder is the next best then.
[[nodiscard]] std::string ring_path_on_tmpfs(const StoreId& store, uint32_t shard);

}  // namespace refract::storage
