// SPDX-License-Identifier: Apache-2.0
// Reads a shard's log back: its segments, then what its ring still has, in the order of the stamps.
//
// A record that fails at the end of the last segment is a torn tail, and is cut: unless a record or a mark
// behind it says that what is missing had been synced. Everything else that fails is damage: it is listed
// with file and extent, and handing out ends there, unless the caller salvages. Where the ring says how far
// the segments were written, nothing before that may be missing.
//
// A salvage gets every record that is sound in itself, also from files whose header is not, or whose name
// is another's: a record says itself where it stands, and in whose log.
//
// The changes of a group are handed out one by one, all of them: one that is not whole is no record. What a
// start has cut away (SegmentHeader::is_cut) is not handed out, in a salvage neither.
//
// Nothing is changed on the disk. Control path; blocks; memory for the largest record and a window of 1 MiB.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "refract/base/report.h"
#include "refract/storage/log/log_writer.h"
#include "refract/storage/log/segment.h"
#include "refract/storage/ring/ring.h"

namespace refract::storage {

struct LogDamage {
  std::string path = {};
  uint64_t position = 0;      // In the log.
  uint64_t file_offset = 0;   // Of the first bad byte's record, in the file.
  uint64_t bytes = 0;         // Up to the next sound record, or to where records should end.
  uint64_t after_stamp = 0;   // Of the record before.
  uint64_t before_stamp = 0;  // What comes behind it has none below; 0: nothing is known of that.
  uint64_t changes_max = 0;   // So many can have been there.
  std::string what = {};

  // "at most 2 changes, with versions from 12 to 13"; empty: none was lost.
  [[nodiscard]] std::string lost() const;
  // "/folder/log-000-...: 120 bytes at offset 4608 (position 8192): the checksum does not match; lost: ..."
  [[nodiscard]] std::string to_string() const;
};

// A log's end that a crash left unfinished.
struct TornTail {
  std::string path = {};
  uint64_t file_offset = 0;
  uint64_t bytes = 0;    // Of what was begun there, as far as it can be told.
  uint64_t records = 0;  // Among them, those behind a hole that are whole, and that say themselves that they
                         // had not been confirmed when they were written.

  // "/folder/log-000-...: 120 bytes from offset 4608 on, and in them 1 whole record behind a hole; no ..."
  [[nodiscard]] std::string to_string() const;
};

// What was found in one file.
struct SegmentReading {
  std::string name = {};
  uint64_t first_position = 0;
  uint64_t end_position = 0;  // Behind the last record.
  uint64_t file_bytes = 0;
  uint64_t records = 0;      // Changes: those of a group count each.
  uint64_t first_stamp = 0;  // Of the records; 0: there are none.
  uint64_t last_stamp = 0;
  bool is_needless = false;  // All in it is older than what was asked for, or does not count: not read.
};

struct LogReadOptions {
  uint64_t after_stamp = 0;  // Records up to it are left out: a snapshot has them.
  bool salvage = false;      // Go on behind damage, with what is sound.
  // Records from here on are left out: the log ends here, whatever it has (common_end.h).
  uint64_t end_position = UINT64_MAX;
  // Called about every 16 MiB: how many bytes of how many have been read. May be empty.
  std::function<void(uint64_t done, uint64_t total)> on_progress = {};
};

// Positions that no record has: where a log has continued without its ring, behind what was lost.
struct LogGap {
  uint64_t end = 0;    // Of what is there.
  uint64_t begin = 0;  // Of what came since.
  bool is_cut = false;
  // Whether a record that ended there is lost.
  [[nodiscard]] constexpr bool has(uint64_t position) const noexcept {
    return position > end && position < begin;
  }
};

struct LogReading {
  LogEnd end;                   // Where the segments end, and the highest stamp of all, or after_stamp.
  uint64_t fresh_position = 0;  // Where a log may continue that has no ring.
  uint64_t begins_after_stamp =
      0;                       // Changes up to this stamp may be missing here: a snapshot must have them.
  uint64_t records = 0;        // Handed out.
  uint64_t absent_values = 0;  // Records whose values are lost; none of them had been acknowledged.
  uint64_t torn_position = 0;  // Where a torn tail was cut; 0: nowhere.
  TornTail torn = {};          // Of what was cut there.
  std::vector<LogGap> gaps = {};
  std::vector<SegmentReading> segments = {};
  std::vector<LogDamage> damages =
      {};  // Not empty: nothing that was handed out may be served, but by salvage.
};

// `ring` as it was taken up, before a LogWriter works on it; null: there is none any more. `values` may be
// null where the memory is gone. `on_record` gets inline records (value in memory until it returns), and no
// kGroup; kPrepared, kDecided and kSettled as they are (log_parts.h).
[[nodiscard]] Reported<LogReading> read_log(Disk& disk, const LogId& log, const Ring* ring,
                                            ValueSource* values, const LogReadOptions& options,
                                            const std::function<void(const Record&)>& on_record);

// One segment's file by itself, with what is sound in it: nothing is known of where its log begins and ends,
// and that others are missing is no damage.
[[nodiscard]] Reported<LogReading> read_segment_alone(Disk& disk, const LogId& log, const std::string& name);

}  // namespace refract::storage
