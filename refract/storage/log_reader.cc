// SPDX-License-Identifier: Apache-2.0
#include "refract/storage/log_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "refract/base/units.h"

namespace refract::storage {
namespace {

constexpr uint64_t kWindowBytes = kMiB;
constexpr uint64_t kProgressBytes = 16 * kMiB;

// A file that is read from front to back, a window at a time.
class Window {
 public:
  explicit Window(File& file) : file_(file) {}

  // `bytes` bytes at `offset`, or fewer where the file ends. Stays until the next call.
  [[nodiscard]] Reported<std::span<const std::byte>> at(uint64_t offset, uint64_t bytes) {
    if (offset < begin_ || offset + bytes > begin_ + filled_) {
      if (buffer_.size() < std::max(bytes, kWindowBytes)) buffer_.resize(std::max(bytes, kWindowBytes));
      const Reported<uint64_t> read = file_.read(offset, buffer_);
      if (!read) return report(read.error());
      begin_ = offset;
      filled_ = *read;
    }
    const uint64_t skip = offset - begin_;
    return std::span<const std::byte>(buffer_).subspan(skip, std::min(bytes, filled_ - skip));
  }

 private:
  File& file_;
  std::vector<std::byte> buffer_;
  uint64_t begin_ = 0;
  uint64_t filled_ = 0;
};

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

 private:
  // What is known of a segment's end: records stand up to `limit`; uncertain: at most.
  struct Extent {
    uint64_t limit = 0;
    bool is_certain = false;
  };

  [[nodiscard]] Reported<> read_segment(const Segment& segment, const Extent& extent);
  [[nodiscard]] Reported<RecordFault> record_at(Window& window, const Segment& segment, uint64_t position,
                                                uint64_t limit, Record& record);
  [[nodiscard]] Reported<std::optional<Record>> next_sound(Window& window, const Segment& segment,
                                                           uint64_t position, uint64_t limit);
  [[nodiscard]] Reported<bool> is_torn(Window& window, const Segment& segment, uint64_t hole,
                                       const Record& behind, uint64_t limit);
  void hand_out(const Record& record);
  void note_damage(const Segment& segment, uint64_t from, uint64_t to, std::string what);
  void read_ring(const Ring& ring, ValueSource* values);
  void progress(uint64_t bytes);

  Disk& disk_;
  LogId log_;
  const LogReadOptions& options_;
  const std::function<void(const Record&)>& on_record_;
  uint64_t key_of_log_;
  uint64_t done_bytes_ = 0;
  uint64_t total_bytes_ = 0;
  uint64_t told_bytes_ = 0;
  uint64_t last_stamp_ = 0;  // Of the record before, whether handed out or not.
  LogReading reading_;
};

void LogScan::note_damage(const Segment& segment, uint64_t from, uint64_t to, std::string what) {
  reading_.damages.push_back({.path = disk_.path_of(segment.name),
                              .position = from,
                              .file_offset = kSegmentHeaderBytes + from - segment.first_position,
                              .bytes = to - from,
                              .what = std::move(what)});
}

void LogScan::hand_out(const Record& record) {
  last_stamp_ = record.stamp;
  if (record.stamp <= options_.after_stamp) return;
  reading_.end.stamp = std::max(reading_.end.stamp, record.stamp);
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

Reported<RecordFault> LogScan::record_at(Window& window, const Segment& segment, uint64_t position,
                                         uint64_t limit, Record& record) {
  const uint64_t offset = kSegmentHeaderBytes + position - segment.first_position;
  Reported<std::span<const std::byte>> bytes = window.at(offset, sizeof(RecordHeader));
  if (!bytes) return report(bytes.error());
  if (bytes->size() < sizeof(RecordHeader)) return RecordFault::kEnd;
  RecordHeader header = {};
  const RecordFault fault = peek_record(*bytes, position, header);
  if (fault != RecordFault::kNone) return fault;
  if (log_bytes(header.key_bytes, header.value_bytes) > limit - position) return RecordFault::kFields;
  if (header.form == RecordForm::kReference) return RecordFault::kFields;
  bytes = window.at(offset, stored_bytes(header.form, header.key_bytes, header.value_bytes));
  if (!bytes) return report(bytes.error());
  return decode_record(*bytes, position, key_of_log_, record);
}

// The first record behind `position` that is sound in itself, up to `limit`.
Reported<std::optional<Record>> LogScan::next_sound(Window& window, const Segment& segment, uint64_t position,
                                                    uint64_t limit) {
  for (position += kRecordUnit; position + sizeof(RecordHeader) <= limit; position += kRecordUnit) {
    Record record;
    const Reported<RecordFault> fault = record_at(window, segment, position, limit, record);
    if (!fault) return report(fault.error());
    if (*fault == RecordFault::kNone) return record;
    if (*fault == RecordFault::kEnd) break;
  }
  return std::nullopt;
}

// Whether a hole in the last segment is what a crash may leave: no record behind it knows that it was synced.
Reported<bool> LogScan::is_torn(Window& window, const Segment& segment, uint64_t hole, const Record& behind,
                                uint64_t limit) {
  uint64_t position = behind.position;
  uint64_t synced = behind.synced_position;
  uint64_t bytes = log_bytes(behind.key.size(), behind.value_bytes);
  while (synced <= hole) {
    position += bytes;
    Record record;
    if (position + sizeof(RecordHeader) > limit) return true;
    const Reported<RecordFault> fault = record_at(window, segment, position, limit, record);
    if (!fault) return report(fault.error());
    if (*fault != RecordFault::kNone) {
      const Reported<std::optional<Record>> next = next_sound(window, segment, position, limit);
      if (!next) return report(next.error());
      if (!*next) return true;
      record = **next;
    }
    position = record.position;
    synced = record.synced_position;
    bytes = log_bytes(record.key.size(), record.value_bytes);
  }
  return false;
}

Reported<> LogScan::read_segment(const Segment& segment, const Extent& extent) {
  const Reported<std::unique_ptr<File>> file = disk_.open(segment.name, OpenMode::kRead);
  if (!file) return report(file.error());
  Window window(**file);
  uint64_t position = segment.first_position;
  while (position < extent.limit) {
    Record record;
    Reported<RecordFault> fault = record_at(window, segment, position, extent.limit, record);
    if (!fault) return report(fault.error());
    std::string what(text(*fault));
    if (*fault == RecordFault::kNone && record.stamp <= last_stamp_) {
      fault = RecordFault::kFields;
      what = "its stamp is not above the one before";
    }
    if (*fault == RecordFault::kNone) {
      const uint64_t bytes = log_bytes(record.key.size(), record.value_bytes);
      hand_out(record);
      position += bytes;
      progress(bytes);
      continue;
    }
    const Reported<std::optional<Record>> next = next_sound(window, segment, position, extent.limit);
    if (!next) return report(next.error());
    if (!extent.is_certain) {
      bool torn = !next->has_value();
      if (!torn) {
        const uint64_t behind = (*next)->position;
        const Reported<bool> judged = is_torn(window, segment, position, **next, extent.limit);
        if (!judged) return report(judged.error());
        torn = *judged;
        if (!torn) note_damage(segment, position, behind, std::move(what));
        if (!torn) position = behind;
      }
      if (!torn) continue;
      if (*fault != RecordFault::kPosition && *fault != RecordFault::kEnd) reading_.torn_position = position;
      if (next->has_value()) reading_.torn_position = position;
      break;
    }
    const uint64_t behind = next->has_value() ? (*next)->position : extent.limit;
    if (behind > segment.end_max()) what = "records are missing up to the next file, or to what was written";
    note_damage(segment, position, behind, std::move(what));
    position = behind;
  }
  reading_.end.position = position;
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
    hand_out(record);
    mark.taken += stored;
    mark.log_position += taken;
  }
}

Reported<LogReading> LogScan::run(const Ring* ring, ValueSource* values) {
  const Reported<LogFiles> files = find_log_files(disk_, log_);
  if (!files) return report(files.error());
  const std::vector<Segment>& segments = files->segments;
  reading_.fresh_position = fresh_position(*files);
  if (!segments.empty()) {
    reading_.begins_after_stamp = segments.front().first_stamp == 0 ? 0 : segments.front().first_stamp - 1;
    // A node that died before it had confirmed anything has given stamps from here on all the same.
    const uint64_t begun_with = segments.back().first_stamp;
    if (begun_with > 0) reading_.end.stamp = std::max(reading_.end.stamp, begun_with - 1);
  }
  for (const Segment& segment : segments) total_bytes_ += segment.file_bytes;
  for (size_t i = 0; i < segments.size(); ++i) {
    const Segment& segment = segments[i];
    const bool is_last = i + 1 == segments.size();
    Extent extent = {.limit = segment.end_max(), .is_certain = false};
    if (!is_last && segments[i + 1].damage.empty()) {
      extent = {.limit = segments[i + 1].previous_end, .is_certain = true};
    } else if (is_last && ring != nullptr && !ring->failed()) {
      extent = {.limit = ring->mark().log_position, .is_certain = true};
    } else if (is_last && ring != nullptr) {
      // A restart of the failed log may have begun this segment already, behind what the ring says.
      const uint64_t written = std::max(ring->mark().log_position, segment.first_position);
      extent.limit = std::min(extent.limit, written);
    }
    // Everything in it is older than what is wanted.
    if (!is_last && segments[i + 1].damage.empty() &&
        segments[i + 1].first_stamp <= options_.after_stamp + 1) {
      progress(segment.file_bytes);
      continue;
    }
    if (!segment.damage.empty()) {
      const uint64_t end = std::max(extent.limit, segment.first_position);
      note_damage(segment, segment.first_position, end, segment.damage);
      reading_.end.position = end;
      continue;
    }
    if (extent.limit < segment.first_position) {
      note_damage(segment, segment.first_position, segment.end_max(),
                  "its place in the log is another one's");
      continue;
    }
    if (Reported<> done = read_segment(segment, extent); !done) return report(done.error());
  }
  if (ring != nullptr && segments.empty()) {
    reading_.damages.push_back({.path = disk_.path_of(""),
                                .position = kFirstPosition,
                                .bytes = ring->mark().log_position - kFirstPosition,
                                .what = "the log's files are gone, though its ring is there"});
    return std::move(reading_);
  }
  if (ring != nullptr && ring->failed() && reading_.end.position < ring->mark().log_position) {
    note_damage(segments.back(), reading_.end.position, ring->mark().log_position,
                "it was lost when the disk failed");
  }
  if (ring != nullptr) read_ring(*ring, values);
  if (options_.on_progress) options_.on_progress(total_bytes_, total_bytes_);
  return std::move(reading_);
}

}  // namespace

std::string LogDamage::to_string() const {
  return fmt::format("{}: {} bytes at offset {} (position {}): {}", path, bytes, file_offset, position, what);
}

Reported<LogReading> read_log(Disk& disk, const LogId& log, const Ring* ring, ValueSource* values,
                              const LogReadOptions& options,
                              const std::function<void(const Record&)>& on_record) {
  return LogScan(disk, log, options, on_record).run(ring, values);
}

}  // namespace refract::storage
