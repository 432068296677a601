// SPDX-License-Identifier: Apache-2.0
// A snapshot's file: a header, blocks of at most kSnapshotPayloadMax bytes that another layer understands, a
// footer with totals. docs/formats/snapshot.md has the bytes.
//
// It is written aside, under a name that says so, and gets its own name when all of it is on the disk: a file
// with that name is whole, or was damaged later. Every byte of it is under a checksum, and no checksum fits
// another file or another place of the same one.
//
// Threads: a writer, by one. A reader, by any number, each with a File of its own. Calls block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "refract/base/report.h"
#include "refract/base/units.h"
#include "refract/storage/disk.h"
#include "refract/storage/record.h"

namespace refract::storage {

inline constexpr uint64_t kSnapshotMagic = 0x31'50'41'4e'53'46'45'52;        // "REFSNAP1", little endian.
inline constexpr uint64_t kSnapshotBlockMagic = 0x4b'43'4f'4c'42'46'45'52;   // "REFBLOCK"
inline constexpr uint64_t kSnapshotFooterMagic = 0x54'4f'4f'46'45'46'45'52;  // "REFEFOOT"
extern const uint32_t kSnapshotVersion;                                      // versions.cc
inline constexpr uint64_t kSnapshotPayloadMax = kMiB;
// A block's kind: of a store that is named, its name, then what is its own. Other kinds are the first row's.
inline constexpr uint64_t kSnapshotHosted = 3;
// Of the first row, in front of all others: transactions over several shards that this one has decided and
// another one may ask for, and what it has prepared (log_parts.h).
inline constexpr uint64_t kSnapshotDecided = 4;
inline constexpr uint64_t kSnapshotPrepared = 5;

// What a snapshot is of. The numbers are what the file's header says.
struct SnapshotFacts {
  StoreId store{};
  uint32_t shard_index = 0;
  uint32_t shard_count = 1;
  uint32_t copies = 0;     // kv.copies of the store.
  uint64_t placement = 0;  // cluster::placement_of() of the store. 0: it has all slots.
  uint64_t hash_seed = 0;
  uint64_t stamp = 0;        // All changes with lower stamps are in it, none with higher ones.
  uint64_t wall_ns = 0;      // The store's time at that moment.
  uint64_t entries_max = 0;  // There are at most so many: for a caller that makes room.
  // Where the shard's log ended at that moment; 0: not known. What stands before is in the snapshot, whatever
  // the log has lost.
  uint64_t log_position = 0;
};

struct SnapshotHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t shard_index;
  StoreId store;
  uint32_t shard_count;
  uint32_t copies;
  uint64_t hash_seed;
  uint64_t stamp;
  uint64_t wall_ns;
  uint64_t entries_max;
  uint64_t log_position;
  uint64_t placement;
  uint64_t reserved[52];
  uint64_t checksum;  // XXH3 of everything before. It is the key of all other checksums of the file.
};
static_assert(sizeof(SnapshotHeader) == kSectorBytes && std::is_trivially_copyable_v<SnapshotHeader>);
static_assert(std::has_unique_object_representations_v<SnapshotHeader>, "no padding may be stored");

// In front of each block, at a multiple of kSectorBytes; behind the payload come zero bytes up to the next.
struct SnapshotBlockHeader {
  uint64_t magic;
  uint64_t index;
  uint64_t offset;  // Of this header in the file.
  uint32_t payload_bytes;
  uint32_t entries;
  uint64_t kind;
  uint64_t payload_checksum;
  uint64_t key;       // A copy of the header's checksum: so a block can be verified when the header is gone.
  uint64_t checksum;  // Of the bytes before.
};
static_assert(sizeof(SnapshotBlockHeader) == 64);
static_assert(std::has_unique_object_representations_v<SnapshotBlockHeader>);

struct SnapshotFooter {
  uint64_t magic;
  uint64_t blocks;
  uint64_t entries;
  uint64_t payload_bytes;
  uint64_t offset;    // Of this footer: where the last block ends.
  uint64_t sum;       // Of the blocks' checksums, in their order.
  uint64_t key;       // As in a block's header.
  uint64_t checksum;  // Of the bytes before.
};
static_assert(sizeof(SnapshotFooter) == 64);
static_assert(std::has_unique_object_representations_v<SnapshotFooter>);

struct SnapshotTotals {
  uint64_t blocks = 0;
  uint64_t entries = 0;
  uint64_t payload_bytes = 0;
  uint64_t file_bytes = 0;
};

// "snapshot-003-00000000000000001234", of shard 3 at stamp 1234: names sort as stamps do.
[[nodiscard]] std::string snapshot_name(uint32_t shard_index, uint64_t stamp);
struct SnapshotName {
  std::string name;
  uint32_t shard_index = 0;
  uint64_t stamp = 0;
};
// Nothing: it is no complete snapshot's.
[[nodiscard]] std::optional<SnapshotName> parse_snapshot_name(std::string_view name);
// Those that are complete, the youngest of each shard last.
[[nodiscard]] Reported<std::vector<SnapshotName>> list_snapshots(Disk& disk);
// Removes what crashes left half written. For the start, before anything is written. Returns how many.
[[nodiscard]] Reported<uint64_t> remove_unfinished_snapshots(Disk& disk);

class SnapshotWriter {
 public:
  struct Options {
    // The disk is told to begin with what was written so often, and has two such runs to do at most: a sync
    // of the log, for which writes wait, would stand behind all of them.
    uint64_t writeback_bytes = 8 * kMiB;
  };
  // The disk outlives it. kExists: there is one of this stamp already.
  [[nodiscard]] static Reported<std::unique_ptr<SnapshotWriter>> create(Disk& disk,
                                                                        const SnapshotFacts& facts,
                                                                        const Options& options);
  SnapshotWriter(const SnapshotWriter&) = delete;
  SnapshotWriter& operator=(const SnapshotWriter&) = delete;
  // Removes the file, unless it was finished.
  ~SnapshotWriter();

  // REQUIRES: at most kSnapshotPayloadMax bytes, at least one.
  [[nodiscard]] Reported<> write(uint64_t kind, uint32_t entries, std::span<const std::byte> payload);
  // Once this has returned without error the file is there, under its name, whatever happens.
  [[nodiscard]] Reported<SnapshotTotals> finish();

  [[nodiscard]] const SnapshotTotals& totals() const noexcept { return totals_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  SnapshotWriter(Disk& disk, const SnapshotFacts& facts, const Options& options);
  [[nodiscard]] Reported<> write_back();

  Disk& disk_;
  const Options options_;
  const std::string name_;
  const std::string name_aside_;
  std::unique_ptr<File> file_;
  uint64_t key_ = 0;
  uint64_t sum_ = 0;
  uint64_t end_ = sizeof(SnapshotHeader);
  uint64_t begun_back_ = 0;     // Up to where the disk was told to begin,
  uint64_t finished_back_ = 0;  // and up to where it has done so.
  SnapshotTotals totals_;
  bool is_finished_ = false;
};

class SnapshotReader {
 public:
  struct Block {
    uint64_t kind = 0;
    uint32_t entries = 0;
    std::span<const std::byte> payload;
  };
  struct Damage {
    uint64_t offset = 0;
    uint64_t bytes = 0;
    std::string what;
    std::optional<uint64_t> entries = 0;  // That were lost; nothing: not known.
  };

  // Reads everything but the blocks' payloads. kCorrupt: damaged, and where. kUnsupported: of another
  // version. kMalformed: no snapshot at all. The disk outlives it.
  [[nodiscard]] static Reported<std::unique_ptr<SnapshotReader>> open(Disk& disk, std::string_view name);
  // The same for a damaged one: what cannot be found is left out, and said in damages(). Where the header is
  // damaged, facts() are what the file's name says, has_header() is false, and each block answers for itself.
  [[nodiscard]] static Reported<std::unique_ptr<SnapshotReader>> salvage(Disk& disk, std::string_view name);

  [[nodiscard]] const SnapshotFacts& facts() const noexcept { return facts_; }
  [[nodiscard]] bool has_header() const noexcept { return has_header_; }
  // Of the blocks that there are.
  [[nodiscard]] const SnapshotTotals& totals() const noexcept { return totals_; }
  [[nodiscard]] uint64_t block_count() const noexcept { return blocks_.size(); }
  [[nodiscard]] const std::vector<Damage>& damages() const noexcept { return damages_; }
  // How many entries the footer says that there are; nothing where it is damaged too.
  [[nodiscard]] std::optional<uint64_t> entries_wanted() const noexcept { return entries_wanted_; }
  [[nodiscard]] uint64_t file_bytes() const noexcept { return file_bytes_; }
  // Where a block stands, and that all its entries are lost, for a caller that could not read() it.
  [[nodiscard]] Damage damage_of(uint64_t index, std::string what) const;

  // One for each thread that reads.
  [[nodiscard]] Reported<std::unique_ptr<File>> open_file() const {
    return disk_.open(name_, OpenMode::kRead);
  }
  // The block's payload lies in `room`, which grows to what is needed, until it is used again. kCorrupt: it
  // is damaged, and where; nothing of it may be used.
  [[nodiscard]] Reported<Block> read(File& file, uint64_t index, std::vector<std::byte>& room) const;
  // Reads every block.
  [[nodiscard]] Reported<> verify() const;

 private:
  SnapshotReader(Disk& disk, std::string_view name) : disk_(disk), name_(name) {}
  [[nodiscard]] static Reported<std::unique_ptr<SnapshotReader>> begin(Disk& disk, std::string_view name,
                                                                       bool salvages);
  [[nodiscard]] Reported<> read_header(File& file);
  [[nodiscard]] Reported<> do_without_header(File& file, const Report& why);
  [[nodiscard]] Reported<> find_blocks(File& file);
  [[nodiscard]] Reported<> check_footer(const SnapshotFooter& footer, uint64_t offset) const;
  [[nodiscard]] Reported<> find_next(File& file, uint64_t& offset, Damage damage);
  [[nodiscard]] Damage describe(const SnapshotBlockHeader& header, uint64_t offset) const;
  [[nodiscard]] std::unexpected<Report> damaged(uint64_t offset, std::string_view what) const;

  Disk& disk_;
  const std::string name_;
  SnapshotFacts facts_;
  SnapshotTotals totals_;
  std::vector<SnapshotBlockHeader> blocks_;
  std::vector<Damage> damages_;
  std::optional<uint64_t> entries_wanted_;
  bool salvages_ = false;
  bool has_header_ = true;
  uint64_t key_ = 0;
  uint64_t sum_ = 0;
  uint64_t file_bytes_ = 0;
};

}  // namespace refract::storage
