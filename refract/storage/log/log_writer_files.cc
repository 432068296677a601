// SPDX-License-Identifier: Apache-2.0
// The files of a LogWriter: where it continues, how a segment is begun, and how one is given up.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/log.h"
#include "refract/base/units.h"
#include "refract/storage/log/log_writer.h"

namespace refract::storage {
namespace {

constexpr uint64_t kZeroStepBytes = 256 * kKiB;
constexpr std::array<std::byte, kZeroStepBytes> kZeroStep = {};

// A failed sync is never waited out, even where the reason was a lack of room.
[[nodiscard]] Reported<> sync_for_good(File& file) {
  Reported<> done = file.sync();
  if (!done) return report(Code::kSystem, std::move(done.error().what), std::move(done.error().next));
  return {};
}

}  // namespace

Reported<std::unique_ptr<LogWriter>> LogWriter::open(const LogId& log, const LogOptions& options,
                                                     const Parts& parts, const Continuation& place) {
  REFRACT_CHECK(options.segment_bytes >= 2 * kPageBytes && options.segment_bytes % kPageBytes == 0);
  std::unique_ptr<LogWriter> writer(new LogWriter(log, options, parts));
  if (Reported<> found = writer->find_place(place); !found) return report(std::move(found.error()));
  writer->count_disk_bytes();
  return writer;
}

Reported<> LogWriter::find_place(const Continuation& place) {
  Reported<LogFiles> files = find_log_files(*parts_.disk, log_);
  if (!files) return report(std::move(files.error()));
  for (const Segment& segment : files->segments) {
    if (segment.damage.empty()) continue;
    return report(Code::kCorrupt, fmt::format("{}: {}", parts_.disk->path_of(segment.name), segment.damage),
                  "see what can be saved: refract check, refract restore --salvage");
  }
  for (const std::string& name : files->outdated) {
    if (Reported<> removed = parts_.disk->remove(name); !removed) return removed;
  }
  for (const std::string& name : files->spares) {
    Reported<std::unique_ptr<File>> file = parts_.disk->open(name, OpenMode::kReadWrite);
    if (!file) return report(std::move(file.error()));
    const Reported<uint64_t> bytes = (*file)->bytes();
    if (!bytes) return report(bytes.error());
    const bool is_whole = *bytes >= options_.segment_bytes && spares_.size() < options_.spares_max;
    if (is_whole) {
      spares_.push_back({.name = name, .file = *std::move(file), .bytes = *bytes, .zeroed = 0});
    } else if (Reported<> removed = parts_.disk->remove(name); !removed) {
      return removed;
    }
  }
  segments_ = std::move(files->segments);
  return place.end ? go_on_behind(*place.end) : go_on_in_last(place.floor_stamp);
}

uint64_t LogWriter::record_bytes() const noexcept {
  uint64_t bytes = 0;
  for (size_t i = 0; i < segments_.size(); ++i) {
    const uint64_t end = i + 1 < segments_.size() ? segments_[i + 1].previous_end : written();
    bytes += end - std::min(end, segments_[i].first_position);
  }
  return bytes;
}

// A server has died, and left its ring. If the memory is gone as well, stamps continue far above the last
// one.
Reported<> LogWriter::go_on_in_last(uint64_t floor_stamp) {
  const uint64_t position = parts_.ring->mark().log_position;
  publish_written(position);
  if (parts_.ring->failed()) {
    set_state(LogState::kFailed, "the log failed before the server was started again");
    return {};
  }
  const bool fits_there = !segments_.empty() && segments_.back().first_position <= position &&
                          position <= segments_.back().end_max();
  if (!fits_there) {
    return report(Code::kCorrupt,
                  fmt::format("the log's ring continues at position {}, which no file of {} has", position,
                              parts_.disk->path_of("")),
                  "if files were moved away, bring them back; else restore a snapshot into a new folder");
  }
  Reported<std::unique_ptr<File>> file = parts_.disk->open(segments_.back().name, OpenMode::kReadWrite);
  if (!file) return report(std::move(file.error()));
  current_ = {.file = *std::move(file), .writeback_from = 0};
  current_.writeback_from = kSegmentHeaderBytes + position - segments_.back().first_position;
  if (Reported<> synced = sync_current(); !synced) {
    note_trouble(synced.error());
    return {};
  }
  if (segments_.back().first_stamp > floor_stamp) return {};
  const uint64_t end = parts_.ring->log_end();
  Segment next = {.first_position = end, .previous_end = end, .first_stamp = floor_stamp + 1};
  // It replaces one that is empty. Not 0, which says nothing: stamps are raised above a change or a snapshot.
  if (segments_.back().first_position == end) {
    next.behind_stamp = std::max<uint64_t>(segments_.back().begins_after_stamp(), 1);
  }
  if (Reported<> begun = try_first(next); !begun) note_trouble(begun.error());
  return {};
}

// The host has died, or the log is new: nothing is left but the files.
Reported<> LogWriter::go_on_behind(const LogEnd& end) {
  const uint64_t position = parts_.ring->mark().log_position;
  const Segment next = {.first_position = position,
                        .previous_end = segments_.empty() ? position : end.position,
                        .first_stamp = end.stamp + 1,
                        .is_cut = end.is_cut,
                        .behind_stamp = segments_.empty() ? end.behind_stamp : 0};
  if (!segments_.empty()) {
    Reported<std::unique_ptr<File>> last = parts_.disk->open(segments_.back().name, OpenMode::kReadWrite);
    if (!last) return report(std::move(last.error()));
    current_ = {.file = *std::move(last), .writeback_from = 0};
    // What was read back may so far stand in the kernel's memory alone.
    if (Reported<> synced = sync_for_good(*current_.file); !synced) return synced;
  }
  publish_written(position);
  synced_.store(position, std::memory_order_release);
  return try_first(next);
}

Reported<> LogWriter::try_first(const Segment& first) {
  has_begun_.store(false, std::memory_order_release);
  first_ = first;
  Reported<> begun = begin_first();
  // What is there can be read. Of a new log there is nothing to read.
  if (!begun && begun.error().code == Code::kNoSpace && !segments_.empty()) {
    note_trouble(begun.error());
    return {};
  }
  return begun;
}

// Behind what a ring that was taken up still holds: nothing is appended to it meanwhile.
Reported<> LogWriter::begin_first() {
  if (Reported<> taken = take_all(parts_.ring->observe_appended()); !taken) return taken;
  if (Reported<> begun = next_segment(*first_, 0); !begun) return begun;
  parts_.ring->set_in_use();
  has_begun_.store(true, std::memory_order_release);
  return {};
}

// Makes a file a segment with room for `bytes` of records, and the current one (W2).
Reported<> LogWriter::next_segment(Segment segment, uint64_t bytes) {
  if (current_.file != nullptr && synced() < written()) {
    if (Reported<> synced = sync_current(); !synced) return synced;
  }
  const uint64_t wanted =
      std::max(options_.segment_bytes, round_up(kSegmentHeaderBytes + bytes + sizeof(LogMark), kPageBytes));
  Reported<Spare> spare = take_spare(wanted);
  if (!spare) return report(std::move(spare.error()));
  segment.name = segment_name(log_.shard, segment.first_position);
  segment.file_bytes = spare->bytes;
  // One that is still empty (too small for its first record, or from before the last start) is replaced under
  // its name by one that says the same of what stands before it.
  const bool replaces = !segments_.empty() && segments_.back().first_position == segment.first_position;
  if (replaces && !segment.begins_again) {
    const Segment& empty = segments_.back();
    segment.previous_end = empty.previous_end;
    segment.begins_again = empty.begins_again;
    segment.is_cut = empty.is_cut;
    if (segment.behind_stamp == 0) {
      segment.first_stamp = empty.first_stamp;
      segment.behind_stamp = empty.behind_stamp;
    }
  }
  if (Reported<> done = turn_into(*spare, segment); !done) {
    give_back(*std::move(spare), done.error());
    return done;
  }
  if (Reported<> done = parts_.disk->sync_folder(); !done) {
    return report(Code::kSystem, std::move(done.error().what), std::move(done.error().next));
  }
  if (current_.file != nullptr && !replaces) {
    if (Reported<> done = mark_continued(segments_.back(), *current_.file, segment); !done) return done;
  }
  current_ = {.file = std::move(spare->file), .writeback_from = 0};
  if (replaces) segments_.pop_back();
  segments_.push_back(std::move(segment));
  count_disk_bytes();
  return {};
}

Reported<> LogWriter::turn_into(Spare& spare, const Segment& segment) {
  const SegmentHeader header = make_segment_header(log_, segment);
  if (Reported<> done = spare.file->write(0, std::as_bytes(std::span(&header, 1))); !done) return done;
  if (Reported<> done = sync_for_good(*spare.file); !done) return done;
  return parts_.disk->rename(spare.name, segment.name);
}

// One for which there was no room is taken again at the next try, which would else make another one each
// time.
void LogWriter::give_back(Spare spare, const Report& why) {
  if (why.code == Code::kNoSpace) {
    spares_.push_back(std::move(spare));
    return;
  }
  spare.file.reset();
  (void)parts_.disk->remove(spare.name);
}

// (W5) When the folder is known to have the next one: so that no crash leaves the mark without it.
Reported<> LogWriter::mark_continued(const Segment& old, File& file, const Segment& next) {
  // Where the log was cut in front of this file, nothing in it counts.
  const uint64_t position = std::max(next.previous_end, old.first_position);
  if (position + sizeof(LogMark) > old.end_max()) return {};
  const LogMark mark = make_mark(position, highest_stamp_, next.first_position, parts_.ring->key_of_log());
  const uint64_t offset = kSegmentHeaderBytes + position - old.first_position;
  return file.write(offset, std::as_bytes(std::span(&mark, 1)));
}

Reported<LogWriter::Spare> LogWriter::take_spare(uint64_t bytes) {
  const auto found = std::ranges::find_if(spares_, [&](const Spare& spare) { return spare.bytes >= bytes; });
  if (found == spares_.end()) return make_spare(bytes);
  Spare spare = std::move(*found);
  spares_.erase(found);
  return spare;
}

Reported<LogWriter::Spare> LogWriter::make_spare(uint64_t bytes) {
  Spare spare;
  spare.bytes = bytes;
  const auto is_taken = [this](const std::string& name) {
    return std::ranges::any_of(spares_, [&](const Spare& other) { return other.name == name; });
  };
  do {
    spare.name = spare_name(log_.shard, spare_number_++);
  } while (is_taken(spare.name));
  Reported<std::unique_ptr<File>> file = parts_.disk->open(spare.name, OpenMode::kCreate);
  if (!file) return report(std::move(file.error()));
  spare.file = *std::move(file);
  if (Reported<> allocated = spare.file->allocate(bytes); !allocated) {
    spare.file.reset();
    (void)parts_.disk->remove(spare.name);
    return report(std::move(allocated.error()));
  }
  const std::scoped_lock guard(mutex_);
  ++counters_.segments_made;
  return spare;
}

// The next segment's room is taken when half of this one's is used, and, where every change is synced, its
// blocks are written once, a piece in each round: a sync then finds no metadata to change.
bool LogWriter::prepare_spare(uint64_t now_ns) {
  if (!spares_.empty()) {
    return options_.durability == Durability::kAlways && zero_some(spares_.front());
  }
  if (!has_begun()) return false;
  const Segment& last = segments_.back();
  const uint64_t used = written() - last.first_position;
  if (used < (last.end_max() - last.first_position) / 2 || now_ns < retry_at_ns_) return false;
  Reported<Spare> spare = make_spare(options_.segment_bytes);
  if (spare) {
    spares_.push_back(*std::move(spare));
    told_no_spare_ = false;
    return true;
  }
  retry_at_ns_ = now_ns + options_.retry_ns;
  // Once: the disk may be full for days.
  if (!std::exchange(told_no_spare_, true)) {
    log_warn("the log of shard {} has no room for its next segment: {}", log_.shard, spare.error().to_line());
  }
  return false;
}

bool LogWriter::zero_some(Spare& spare) {
  if (spare.zeroed >= spare.bytes) return false;
  const uint64_t bytes = std::min(kZeroStepBytes, spare.bytes - spare.zeroed);
  // A failure here is the spare's; it shows again when the spare is used.
  const Reported<> done = spare.file->write(spare.zeroed, std::span(kZeroStep).first(bytes));
  if (done) spare.file->start_writeback(spare.zeroed, bytes);
  spare.zeroed = done ? spare.zeroed + bytes : spare.bytes;
  return true;
}

bool LogWriter::serve_requests() {
  bool did_something = false;
  if (const uint64_t stamp = restart_stamp_.exchange(0); stamp != 0 && state() == LogState::kFailed) {
    did_something = true;
    if (Reported<> begun = begin_again(stamp - 1); !begun) {
      log_error("the log of shard {} cannot begin again: {}", log_.shard, begun.error().to_line());
      const std::scoped_lock guard(mutex_);
      trouble_ = begun.error().to_line();
    }
  }
  if (const uint64_t stamp = drop_stamp_.exchange(0); stamp != 0) {
    did_something = true;
    drop_segments(stamp);
  }
  return did_something;
}

Reported<> LogWriter::begin_again(uint64_t stamp) {
  if (highest_stamp_ > stamp) {
    return report(Code::kInvalidArgument,
                  fmt::format("the snapshot has changes up to stamp {}, the failed log had {} already", stamp,
                              highest_stamp_),
                  "write another snapshot");
  }
  const Reported<RingMark> mark = behind_stamp(stamp);
  if (!mark) return report(mark.error());
  const uint64_t position = mark->log_position;
  // Not synced before it is left: it would fail again, or succeed and mean nothing.
  current_.file.reset();
  const Segment next = {
      .first_position = position, .previous_end = position, .first_stamp = stamp + 1, .begins_again = true};
  if (Reported<> begun = next_segment(next, 0); !begun) return begun;
  parts_.ring->take(*mark);
  publish_written(position);
  synced_.store(position, std::memory_order_release);
  unsynced_since_ns_ = 0;
  parts_.ring->set_failed(false);
  parts_.ring->set_in_use();
  has_begun_.store(true, std::memory_order_release);
  // While the state is still kFailed, so that none of the old files is used again.
  drop_segments(stamp);
  set_state(LogState::kRunning, {});
  log_info("the log of shard {} begins again behind a snapshot at stamp {}", log_.shard, stamp);
  return {};
}

// Where the ring continues behind what the snapshot has.
Reported<RingMark> LogWriter::behind_stamp(uint64_t stamp) const {
  const Ring& ring = *parts_.ring;
  RingMark mark = ring.mark();
  const uint64_t appended = ring.observe_appended();
  while (mark.taken < appended) {
    RecordHeader header = {};
    if (peek_record(ring.bytes_at(mark.taken, sizeof(header)), mark.log_position, header) !=
        RecordFault::kNone) {
      return report(Code::kCorrupt, "a record in the log's ring has been overwritten");
    }
    if (header.stamp > stamp) break;
    mark.taken += stored_bytes(header.form, header.key_bytes, header.value_bytes);
    mark.log_position += log_bytes(header.key_bytes, header.value_bytes);
  }
  return mark;
}

// Oldest first, so that what a crash leaves of it is a log without a hole. One that could not be removed
// costs nothing but room on the disk, and the next drop tries again.
void LogWriter::drop_segments(uint64_t stamp) {
  size_t gone = 0;
  while (gone + 1 < segments_.size() &&
         (segments_[gone + 1].first_stamp <= stamp + 1 || segments_.back().begins_again)) {
    if (Reported<> done = retire(segments_[gone]); !done) {
      log_warn("the log of shard {} keeps a segment: {}", log_.shard, done.error().to_line());
      break;
    }
    ++gone;
  }
  if (gone == 0) return;
  segments_.erase(segments_.begin(), segments_.begin() + static_cast<ptrdiff_t>(gone));
  // Before one of them is written as another segment: the folder must not name it as the old one then.
  if (Reported<> synced = parts_.disk->sync_folder(); !synced) {
    log_warn("the log of shard {}: {}", log_.shard, synced.error().to_line());
    spares_.clear();
  }
  retry_at_ns_ = 0;
  count_disk_bytes();
  const std::scoped_lock guard(mutex_);
  counters_.segments_dropped += gone;
}

Reported<> LogWriter::retire(const Segment& segment) {
  const bool is_wanted = spares_.size() < options_.spares_max &&
                         segment.file_bytes == options_.segment_bytes && state() == LogState::kRunning;
  if (!is_wanted) return parts_.disk->remove(segment.name);
  Spare spare = {.name = {}, .file = nullptr, .bytes = segment.file_bytes, .zeroed = segment.file_bytes};
  do {
    spare.name = spare_name(log_.shard, spare_number_++);
  } while (std::ranges::any_of(spares_, [&](const Spare& other) { return other.name == spare.name; }));
  if (Reported<> renamed = parts_.disk->rename(segment.name, spare.name); !renamed) return renamed;
  Reported<std::unique_ptr<File>> file = parts_.disk->open(spare.name, OpenMode::kReadWrite);
  if (!file) return report(std::move(file.error()));
  spare.file = *std::move(file);
  spares_.push_back(std::move(spare));
  const std::scoped_lock guard(mutex_);
  ++counters_.segments_recycled;
  return {};
}

void LogWriter::count_disk_bytes() noexcept {
  uint64_t bytes = 0;
  for (const Segment& segment : segments_) bytes += segment.file_bytes;
  for (const Spare& spare : spares_) bytes += spare.bytes;
  disk_bytes_.store(bytes, std::memory_order_relaxed);
}

}  // namespace refract::storage
