// SPDX-License-Identifier: Apache-2.0
// A log's files: segments of records, "log-<shard>-<first position>", and files that wait to become one,
// "spare-<shard>-<number>". docs/formats/log.md has the layout.
//
// A segment holds whole records, the first one behind its header; a position of the log lies in it at
// kSegmentHeaderBytes + position - first_position. It is made under a spare's name, with its header, brought
// to the disk, renamed, and the folder synced, before a record goes in: so a file with a segment's name has a
// sound header, or is damaged.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "refract/storage/disk.h"
#include "refract/storage/record.h"

namespace refract::storage {

inline constexpr uint64_t kSegmentMagic = 0x31'47'4f'4c'46'45'52'00;  // "\0REFLOG1", little endian.
extern const uint32_t kSegmentVersion;                                // versions.cc
inline constexpr uint64_t kSegmentHeaderBytes = kSectorBytes;         // One sector, so that it is never torn.
inline constexpr uint64_t kFirstPosition = 4096;                      // Of a log's first record.
inline constexpr uint64_t kPositionMax = uint64_t{1} << 62;           // No log gets so far: it counts bytes.

struct SegmentHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t shard;
  StoreId store;
  uint64_t first_position;
  uint64_t
      previous_end;  // Where the log ended before; no more than first_position. What lies between is void.
  uint64_t first_stamp;   // Records before this segment have lower stamps, those in it none below.
  uint64_t begins_again;  // 1: no segment before this one counts; a snapshot has what they had.
  uint64_t file_bytes;  // So long it was made; a shorter one has lost its end. 0: an earlier release made it.
  uint64_t hash_seed;   // Of the store, as the page "store" has it: should that be lost. 0: not known.
  uint64_t shard_count;  // Likewise.
  // Where first_stamp is higher than the first change that the log may miss: nothing was changed between this
  // stamp (of the snapshot that the log begins behind, or of the last change before) and first_stamp. 0: not
  // said.
  uint64_t behind_stamp;
  uint64_t copies;     // As hash_seed.
  uint64_t is_cut;     // 1: what earlier segments have from previous_end on does not count.
  uint64_t placement;  // As hash_seed.
  uint64_t reserved[48];
  uint64_t checksum;  // XXH3 over all before.
};
static_assert(sizeof(SegmentHeader) == kSegmentHeaderBytes && std::is_trivially_copyable_v<SegmentHeader>);
static_assert(std::has_unique_object_representations_v<SegmentHeader>);
static_assert(offsetof(SegmentHeader, first_position) == 32 && offsetof(SegmentHeader, is_cut) == 104 &&
              offsetof(SegmentHeader, checksum) == 504);

// Whose log it is.
struct LogId {
  StoreId store = {};
  uint32_t shard = 0;
  // What a segment's header notes besides; 0: not known. They tell no two logs apart.
  uint32_t shard_count = 0;
  uint32_t copies = 0;  // Means nothing while shard_count is not known. Likewise placement.
  uint64_t placement = 0;
  uint64_t hash_seed = 0;
};

struct Segment {
  std::string name = {};
  uint64_t first_position = 0;
  uint64_t previous_end = 0;
  uint64_t first_stamp = 0;
  bool begins_again = false;
  bool is_cut = false;
  uint64_t behind_stamp = 0;
  uint64_t file_bytes = 0;
  // Of the header, or of the name beside it. Then nothing but name, first_position and file_bytes is known,
  // unless the header is sound: first_position is the header's then, whatever the name says.
  std::string damage = {};
  uint64_t damage_offset = 0;  // In the file.
  uint64_t damage_bytes = 0;
  bool has_header = false;
  bool is_foreign = false;  // The header is sound, and of another store's or shard's log.

  // Changes up to this stamp may be missing in a log that begins with it.
  [[nodiscard]] uint64_t begins_after_stamp() const noexcept {
    if (behind_stamp != 0) return behind_stamp;
    return first_stamp == 0 ? 0 : first_stamp - 1;
  }
  // No record of it ends behind this position.
  [[nodiscard]] uint64_t end_max() const noexcept {
    return first_position + (file_bytes > kSegmentHeaderBytes ? file_bytes - kSegmentHeaderBytes : 0);
  }
};

struct LogFiles {
  std::vector<Segment> segments;      // In the order of their positions; from the last that begins again on.
                                      // Of several with one position, those that are damaged stand last.
  std::vector<std::string> spares;    // Names.
  std::vector<std::string> outdated;  // Segments in front of one that begins again: to be removed.
};

[[nodiscard]] std::string segment_name(uint32_t shard, uint64_t first_position);
[[nodiscard]] std::string spare_name(uint32_t shard, uint64_t number);
// Which shard's log the name is of; nothing: it is no segment's.
[[nodiscard]] std::optional<uint32_t> shard_of_segment(std::string_view name);

// Whose log a file is of, by what its header says; nothing: the header is damaged.
[[nodiscard]] Reported<std::optional<LogId>> log_id_in(Disk& disk, const std::string& name);
// The bytes of a segment's header.
[[nodiscard]] SegmentHeader make_segment_header(const LogId& log, const Segment& segment) noexcept;
// kUnsupported: another version wrote it. Damage is no error: it stands in what is returned.
[[nodiscard]] Reported<Segment> read_segment_header(Disk& disk, const LogId& log, const std::string& name);
[[nodiscard]] Reported<LogFiles> find_log_files(Disk& disk, const LogId& log);

// The position at which a log whose files are these may continue when its end is uncertain: behind everything
// that any of them may hold, so that no position is used twice.
[[nodiscard]] uint64_t fresh_position(const LogFiles& files) noexcept;

}  // namespace refract::storage
