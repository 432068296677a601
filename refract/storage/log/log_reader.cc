// SPDX-License-Identifier: Apache-2.0
#include "refract/storage/log/log_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <ranges>
#include <utility>

#include "refract/base/units.h"
#include "refract/storage/group.h"
#include "refract/storage/log/segment_scan.h"

namespace refract::storage {
namespace {

constexpr uint64_t kProgressBytes = 16 * kMiB;
// A record has a key.
constexpr uint64_t kRecordBytesMin = log_bytes(1, 0);

// How many changes so many bytes can have held at most: those of a group are shorter than others.
constexpr uint64_t changes_max(uint64_t bytes) noexcept {
  const uint64_t apart = bytes / kRecordBytesMin;
  if (bytes < sizeof(RecordHeader)) return apart;
  return std::max(apart, (bytes - sizeof(RecordHeader)) / group_change_bytes(1, 0));
}

class LogScan {
 public:
  LogScan(Disk& disk, const LogId& log, const LogReadOptions& options,
          const std::function<void(const Record&)>& on_record)
      : disk_(disk),
        log_(log),
        options_(options),
        on_record_(on_record),
        key_of_log_(log_key(log.store, log.shard)) {
    reading_.end.stamp = options.after_stamp;
  }

  [[nodiscard]] Reported<LogReading> run(const Ring* ring, ValueSource* values);
  [[nodiscard]] Reported<LogReading> run_alone(const std::string& name);

 private:
  // What is known of a segment's end: records stand up to `limit`; uncertain: at most.
  struct Extent {
    uint64_t limit = 0;
    bool is_certain = false;
    bool is_last = false;        // Nothing of the log stands in a later file.
    uint64_t next_stamp = 0;     // Records behind it have none below; 0: nothing is known.
    uint64_t next_position = 0;  // Of the file behind it; 0: there is none.
  };

  [[nodiscard]] Extent extent_of(const std::vector<Segment>& segments, size_t index, const Ring* ring) const;
  [[nodiscard]] Reported<> read_files(const std::vector<Segment>& segments, const Ring* ring);
  [[nodiscard]] Reported<> read_segment(const Segment& segment, const Extent& extent);
  [[nodiscard]] Reported<uint64_t> pass_hole(SegmentScan& scan, const Segment& segment, const Extent& extent,
                                             uint64_t hole, RecordFault fault, std::string what);
  [[nodiscard]] Reported<> note_torn(SegmentScan& scan, const Segment& segment, uint64_t hole, uint64_t limit,
                                     const SegmentScan::Behind& behind);
  [[nodiscard]] uint64_t hand_out(const Record& record);
  void hand_out_one(const Record& change);
  void note_damage(const Segment& segment, uint64_t from, uint64_t to, std::string what,
                   uint64_t before_stamp);
  void note_file_damage(const std::string& name, uint64_t position, uint64_t bytes, std::string what);
  void note_missing_file(uint64_t position);
  [[nodiscard]] std::vector<Segment> without_copies(const std::vector<Segment>& segments);
  void leave_out_cut(std::vector<Segment>& segments);
  void note_needless(const Segment& segment);
  void read_ring(const Ring& ring, ValueSource* values);
  void progress(uint64_t bytes);

  Disk& disk_;
  LogId log_;
  const LogReadOptions& options_;
  const std::function<void(const Record&)>& on_record_;
  uint64_t key_of_log_;
  bool is_alone_ = false;
  uint64_t done_bytes_ = 0;
  uint64_t total_bytes_ = 0;
  uint64_t told_bytes_ = 0;
  uint64_t last_stamp_ = 0;  // Of the record before, whether handed out or not.
  LogReading reading_;
};

void LogScan::note_damage(const Segment& segment, uint64_t from, uint64_t to, std::string what,
                          uint64_t before_stamp) {
  const std::string path = disk_.path_of(segment.name);
  uint64_t changes = changes_max(to - from);
  if (before_stamp != 0) changes = std::min(changes, before_stamp - std::min(before_stamp, last_stamp_ + 1));
  if (!reading_.damages.empty()) {
    LogDamage& last = reading_.damages.back();
    if (last.path == path && last.position + last.bytes == from && last.bytes > 0 &&
        last.after_stamp == last_stamp_) {
      last.bytes += to - from;
      last.before_stamp = before_stamp;
      last.changes_max += changes;
      return;
    }
  }
  reading_.damages.push_back({.path = path,
                              .position = from,
                              .file_offset = kSegmentHeaderBytes + from - segment.first_position,
                              .bytes = to - from,
                              .after_stamp = last_stamp_,
                              .before_stamp = before_stamp,
                              .changes_max = changes,
                              .what = std::move(what)});
}

// Of the file itself, with no record in it.
void LogScan::note_file_damage(const std::string& name, uint64_t position, uint64_t bytes, std::string what) {
  reading_.damages.push_back({.path = disk_.path_of(name),
                              .position = position,
                              .bytes = bytes,
                              .after_stamp = last_stamp_,
                              .what = std::move(what)});
}

void LogScan::note_missing_file(uint64_t position) {
  note_file_damage(segment_name(log_.shard, position), position, 0,
                   "the file is missing, and the log continues in it");
  reading_.damages.back().changes_max = UINT64_MAX;
}

// Returns how many changes it has. A group that is not whole is no record, and never comes here. Those of
// transactions over several shards go out as they are.
uint64_t LogScan::hand_out(const Record& record) {
  if (record.kind != RecordKind::kGroup) {
    hand_out_one(record);
    return 1;
  }
  uint64_t count = 0;
  GroupReader changes(record);
  for (auto change = changes.next(); change; change = changes.next(), ++count) hand_out_one(*change);
  return count;
}

void LogScan::hand_out_one(const Record& record) {
  last_stamp_ = last_stamp_of(record);
  if (last_stamp_ <= options_.after_stamp) return;
  reading_.end.stamp = std::max(reading_.end.stamp, last_stamp_);
  if (record.form != RecordForm::kInline) {
    ++reading_.absent_values;
    return;
  }
  if (!reading_.damages.empty() && !options_.salvage) return;
  ++reading_.records;
  on_record_(record);
}

void LogScan::progress(uint64_t bytes) {
  done_bytes_ += bytes;
  if (!options_.on_progress || done_bytes_ - told_bytes_ < kProgressBytes) return;
  told_bytes_ = done_bytes_;
  options_.on_progress(done_bytes_, total_bytes_);
}

Reported<> LogScan::read_segment(const Segment& segment, const Extent& extent) {
  const Reported<std::unique_ptr<File>> file = disk_.open(segment.name, OpenMode::kRead);
  if (!file) return report(file.error());
  SegmentScan scan(**file, segment, key_of_log_);
  SegmentReading found{.name = segment.name,
                       .first_position = segment.first_position,
                       .end_position = segment.first_position,
                       .file_bytes = segment.file_bytes};
  uint64_t position = segment.first_position;
  while (position < extent.limit) {
    if (position >= options_.end_position) {
      reading_.end.is_cut = true;
      break;
    }
    Record record;
    Reported<RecordFault> fault = scan.record_at(position, extent.limit, record);
    if (!fault) return report(fault.error());
    std::string what(text(*fault));
    if (*fault == RecordFault::kNone && record.stamp <= last_stamp_) {
      fault = RecordFault::kFields;
      what = "its stamp is not above the one before";
    }
    if (*fault == RecordFault::kNone) {
      const uint64_t bytes = log_bytes(record.key.size(), record.value_bytes);
      if (found.records == 0) found.first_stamp = record.stamp;
      found.records += hand_out(record);
      found.last_stamp = last_stamp_;
      position += bytes;
      found.end_position = position;
      progress(bytes);
      continue;
    }
    const Reported<uint64_t> next = pass_hole(scan, segment, extent, position, *fault, std::move(what));
    if (!next) return report(next.error());
    if (*next == position) break;
    position = *next;
  }
  reading_.end.position = position;
  reading_.segments.push_back(std::move(found));
  return {};
}

// Returns where reading continues; `hole` itself: records end there, for the crash that tore them, or because
// none was written behind it.
Reported<uint64_t> LogScan::pass_hole(SegmentScan& scan, const Segment& segment, const Extent& extent,
                                      uint64_t hole, RecordFault fault, std::string what) {
  const Reported<SegmentScan::Behind> behind = scan.look_behind(hole, extent.limit);
  if (!behind) return report(behind.error());
  const Reported<std::optional<LogMark>> mark = scan.mark_at(hole);
  if (!mark) return report(mark.error());
  if (*mark) reading_.end.stamp = std::max(reading_.end.stamp, (*mark)->stamp);
  uint64_t next = behind->first ? behind->first->position : extent.limit;
  if (!extent.is_certain && !behind->knows_synced) {
    const bool is_begun = !*mark && fault != RecordFault::kPosition && fault != RecordFault::kEnd;
    if (!extent.is_last) {
      // What the next file says of this one's end cannot be read.
      if (*mark || hole == extent.next_position) return hole;
      if (!is_begun && !behind->first) return hole;
    } else {
      if (*mark && (*mark)->continued_at != 0) {
        if (!is_alone_) note_missing_file((*mark)->continued_at);
        return hole;
      }
      if (!is_begun && !behind->first) return hole;
      if (const Reported<> noted = note_torn(scan, segment, hole, extent.limit, *behind); !noted)
        return report(noted.error());
      return hole;
    }
  }
  if (next > segment.end_max()) what = "records are missing up to the next file, or to what was written";
  uint64_t before_stamp = extent.next_stamp;
  if (behind->first) {
    // A mark's own stamp may have been lost with its record.
    const bool knows = !behind->first->is_mark || behind->first->stamp != 0;
    before_stamp = knows ? behind->first->stamp + (behind->first->is_mark ? 1 : 0) : 0;
    if (behind->first->is_mark) reading_.end.stamp = std::max(reading_.end.stamp, behind->first->stamp);
  }
  note_damage(segment, hole, next, std::move(what), before_stamp);
  return next;
}

Reported<> LogScan::note_torn(SegmentScan& scan, const Segment& segment, uint64_t hole, uint64_t limit,
                              const SegmentScan::Behind& behind) {
  const Reported<uint64_t> announced = scan.announced_bytes(hole, limit);
  if (!announced) return report(announced.error());
  reading_.torn_position = hole;
  reading_.torn = {.path = disk_.path_of(segment.name),
                   .file_offset = kSegmentHeaderBytes + hole - segment.first_position,
                   .bytes = std::max(*announced, behind.end - hole),
                   .records = behind.records};
  return {};
}

void LogScan::read_ring(const Ring& ring, ValueSource* values) {
  RingMark mark = ring.mark();
  const uint64_t appended = ring.observe_appended();
  while (mark.taken < appended) {
    Record record;
    const std::span<const std::byte> bytes = ring.bytes_at(mark.taken, appended - mark.taken);
    const RecordFault fault = decode_record(bytes, mark.log_position, ring.key_of_log(), record);
    if (fault != RecordFault::kNone || record.stamp <= last_stamp_) {
      reading_.damages.push_back({.path = "the log's ring",
                                  .position = mark.log_position,
                                  .file_offset = mark.taken,
                                  .bytes = appended - mark.taken,
                                  .after_stamp = last_stamp_,
                                  .changes_max = changes_max(appended - mark.taken),
                                  .what = std::string(text(fault))});
      return;
    }
    const uint64_t stored = stored_bytes(record.form, record.key.size(), record.value_bytes);
    const uint64_t taken = log_bytes(record.key.size(), record.value_bytes);
    if (record.form == RecordForm::kReference && values != nullptr) {
      if (const std::optional<std::span<const std::byte>> value = values->value_of(record)) {
        record.form = RecordForm::kInline;
        record.value = *value;
      }
    }
    (void)hand_out(record);
    mark.taken += stored;
    mark.log_position += taken;
  }
}

LogScan::Extent LogScan::extent_of(const std::vector<Segment>& segments, size_t index,
                                   const Ring* ring) const {
  const Segment& segment = segments[index];
  const bool is_last = index + 1 == segments.size();
  if (!is_last && segments[index + 1].has_header) {
    return {.limit = segments[index + 1].previous_end,
            .is_certain = true,
            .next_stamp = segments[index + 1].first_stamp,
            .next_position = segments[index + 1].first_position};
  }
  if (!is_last) {
    const uint64_t next = segments[index + 1].first_position;
    return {.limit = std::min(segment.end_max(), std::max(next, segment.first_position)),
            .next_position = next};
  }
  if (ring != nullptr && !ring->failed()) {
    return {.limit = ring->mark().log_position, .is_certain = true, .is_last = true};
  }
  Extent extent = {.limit = segment.end_max(), .is_last = true};
  if (ring != nullptr) {
    // A restart of the failed log may have begun this segment already, behind what the ring says.
    extent.limit = std::min(extent.limit, std::max(ring->mark().log_position, segment.first_position));
  }
  return extent;
}

Reported<> LogScan::read_files(const std::vector<Segment>& segments, const Ring* ring) {
  for (size_t i = 0; i < segments.size(); ++i) {
    const Segment& segment = segments[i];
    const bool is_last = i + 1 == segments.size();
    const Extent extent = extent_of(segments, i, ring);
    // Everything in it is older than what is wanted.
    if (!is_last && segments[i + 1].has_header && segments[i + 1].damage.empty() &&
        segments[i + 1].first_stamp <= options_.after_stamp + 1) {
      note_needless(segment);
      continue;
    }
    if (!segment.damage.empty()) {
      note_file_damage(segment.name, segment.first_position, segment.damage_bytes, segment.damage);
      reading_.damages.back().file_offset = segment.damage_offset;
    }
    if (segment.is_foreign) continue;
    if (extent.limit < segment.first_position) {
      note_file_damage(segment.name, segment.first_position, segment.file_bytes,
                       "its place in the log is another one's");
      continue;
    }
    if (Reported<> done = read_segment(segment, extent); !done) return done;
  }
  return {};
}

void LogScan::note_needless(const Segment& segment) {
  reading_.segments.push_back({.name = segment.name,
                               .first_position = segment.first_position,
                               .file_bytes = segment.file_bytes,
                               .is_needless = true});
  progress(segment.file_bytes);
}

// Segments that lie between the end that a start has found and the one that it began there, and those behind
// the end that is asked for. One that begins there is empty.
void LogScan::leave_out_cut(std::vector<Segment>& segments) {
  uint64_t end = options_.end_position;
  std::vector<Segment> kept;
  for (Segment& segment : segments | std::views::reverse) {
    if (!segment.damage.empty() || segment.first_position <= end) {
      if (segment.is_cut && segment.damage.empty()) end = std::min(end, segment.previous_end);
      kept.push_back(std::move(segment));
      continue;
    }
    if (end == options_.end_position) reading_.end.is_cut = true;
    note_needless(segment);
  }
  std::ranges::reverse(kept);
  std::ranges::reverse(reading_.segments);
  segments = std::move(kept);
}

// Files that say of themselves that they are another one, which is there.
std::vector<Segment> LogScan::without_copies(const std::vector<Segment>& segments) {
  std::vector<Segment> kept;
  for (const Segment& segment : segments) {
    if (!kept.empty() && segment.first_position == kept.back().first_position) {
      note_file_damage(segment.name, segment.first_position, segment.file_bytes,
                       fmt::format("it is a copy of {}", kept.back().name));
    } else {
      kept.push_back(segment);
    }
  }
  return kept;
}

Reported<LogReading> LogScan::run(const Ring* ring, ValueSource* values) {
  const Reported<LogFiles> files = find_log_files(disk_, log_);
  if (!files) return report(files.error());
  std::vector<Segment> segments = without_copies(files->segments);
  reading_.fresh_position = fresh_position(*files);
  if (segments.empty()) reading_.end.behind_stamp = options_.after_stamp;
  if (!segments.empty()) {
    reading_.begins_after_stamp = segments.front().begins_after_stamp();
    // A node that died before it had confirmed anything has given stamps from here on all the same.
    const uint64_t begun_with = segments.back().first_stamp;
    if (begun_with > 0) reading_.end.stamp = std::max(reading_.end.stamp, begun_with - 1);
  }
  for (const Segment& segment : segments) total_bytes_ += segment.file_bytes;
  leave_out_cut(segments);
  for (const Segment& segment : segments) {
    if (!segment.has_header || segment.begins_again || segment.previous_end >= segment.first_position)
      continue;
    reading_.gaps.push_back({segment.previous_end, segment.first_position, segment.is_cut});
  }
  if (Reported<> done = read_files(segments, ring); !done) return report(done.error());
  if (ring != nullptr && segments.empty()) {
    reading_.damages.push_back({.path = disk_.path_of(""),
                                .position = kFirstPosition,
                                .bytes = ring->mark().log_position - kFirstPosition,
                                .changes_max = UINT64_MAX,
                                .what = "the log's files are gone, though its ring is there"});
    return std::move(reading_);
  }
  if (ring != nullptr && ring->failed() && reading_.end.position < ring->mark().log_position) {
    note_damage(segments.back(), reading_.end.position, ring->mark().log_position,
                "it was lost when the disk failed", 0);
  }
  if (ring != nullptr) read_ring(*ring, values);
  if (options_.on_progress) options_.on_progress(total_bytes_, total_bytes_);
  return std::move(reading_);
}

Reported<LogReading> LogScan::run_alone(const std::string& name) {
  is_alone_ = true;
  const Reported<Segment> segment = read_segment_header(disk_, log_, name);
  if (!segment) return report(segment.error());
  if (Reported<> done = read_files({*segment}, nullptr); !done) return report(done.error());
  return std::move(reading_);
}

}  // namespace

std::string LogDamage::lost() const {
  if (changes_max == 0) return {};
  if (changes_max == UINT64_MAX) return fmt::format("changes with versions above {}", after_stamp);
  const std::string count = changes_max == 1 ? "1 change" : fmt::format("at most {} changes", changes_max);
  if (before_stamp == 0) return fmt::format("{}, with versions above {}", count, after_stamp);
  if (before_stamp <= after_stamp + 2) return fmt::format("{}, with version {}", count, after_stamp + 1);
  return fmt::format("{}, with versions from {} to {}", count, after_stamp + 1, before_stamp - 1);
}

std::string TornTail::to_string() const {
  const std::string behind =
      records == 0 ? std::string()
                   : fmt::format(", with {} whole record{} behind a hole", records, records == 1 ? "" : "s");
  return fmt::format("{}: {} bytes from offset {} on{}; no record or mark says that they had been confirmed",
                     path, bytes, file_offset, behind);
}

std::string LogDamage::to_string() const {
  const std::string gone = lost();
  return fmt::format("{}: {} bytes at offset {} (position {}): {}{}{}", path, bytes, file_offset, position,
                     what, gone.empty() ? "" : "; lost: ", gone);
}

Reported<LogReading> read_log(Disk& disk, const LogId& log, const Ring* ring, ValueSource* values,
                              const LogReadOptions& options,
                              const std::function<void(const Record&)>& on_record) {
  return LogScan(disk, log, options, on_record).run(ring, values);
}

Reported<LogReading> read_segment_alone(Disk& disk, const LogId& log, const std::string& name) {
  const LogReadOptions options{.salvage = true};
  const std::function<void(const Record&)> ignore = [](const Record&) {};
  return LogScan(disk, log, options, ignore).run_alone(name);
}

}  // namespace refract::storage
