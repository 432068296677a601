// SPDX-License-Identifier: Apache-2.0
#include "refract/storage/log/shard_log.h"

#include <algorithm>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/log.h"
#include "refract/storage/log/segment_scan.h"

namespace refract::storage {

Reported<std::unique_ptr<ShardLog>> ShardLog::open(const ShardLogSpec& spec) {
  REFRACT_CHECK(spec.disk != nullptr && spec.clock != nullptr);
  // A record is one span of the ring, and there must be room for some.
  REFRACT_CHECK(stored_bytes(RecordForm::kInline, kRecordKeyBytesMax, spec.reference_bytes) <=
                spec.ring_bytes / 4);
  std::unique_ptr<ShardLog> log(new ShardLog(spec));
  if (spec.ring == nullptr) return log;
  Reported<Ring> ring = spec.empties_ring ? Ring::open_emptied(*spec.ring) : Ring::open(*spec.ring);
  if (!ring) return report(std::move(ring.error()));
  log->ring_.emplace(*std::move(ring));
  if (!log->ring_->is_in_use()) return log;
  const Reported<bool> is_left_behind = log->is_left_behind();
  if (!is_left_behind) return report(is_left_behind.error());
  log->has_ring_ = !*is_left_behind;
  if (*is_left_behind) {
    log_warn("{} ends at position {}, and the log's files continue behind that: it is left aside",
             spec.ring->path(), log->ring_->log_end());
  }
  return log;
}

// Whatever a ring holds comes into the files before anything behind it does. So, where these have more, they
// have all of it: a folder was copied while a node wrote, the ring first, or a device has come back without
// the ring's last pages.
Reported<bool> ShardLog::is_left_behind() {
  if (ring_->failed()) return false;
  const Reported<LogFiles> files = find_log_files(*spec_.disk, spec_.log);
  if (!files) return report(files.error());
  if (files->segments.empty()) return false;
  const Segment& last = files->segments.back();
  const uint64_t end = ring_->log_end();
  if (last.first_position > end) return true;
  if (!last.damage.empty() || end >= last.end_max()) return false;
  const Reported<std::unique_ptr<File>> file = spec_.disk->open(last.name, OpenMode::kRead);
  if (!file) return report(file.error());
  SegmentScan scan(**file, last, ring_->key_of_log());
  Record record;
  const Reported<RecordFault> fault = scan.record_at(end, last.end_max(), record);
  if (!fault) return report(fault.error());
  return *fault == RecordFault::kNone;
}

ShardLog::~ShardLog() = default;

std::optional<Record> ShardLog::last_record() const noexcept {
  return has_ring_ ? ring_->last_record() : std::nullopt;
}

Reported<LogReading> ShardLog::read(const LogReadOptions& options,
                                    const std::function<void(const Record&)>& on_record) {
  REFRACT_CHECK(writer_ == nullptr);
  return read_log(*spec_.disk, spec_.log, has_ring_ ? &*ring_ : nullptr, spec_.values, options, on_record);
}

// Behind all that the lost ring can have stood for, where another shard's log may have written down how far
// this one was.
uint64_t ShardLog::position_without_ring(const LogFiles& files) const noexcept {
  const bool may_be_needed = spec_.log.shard_count > 1 && !files.segments.empty();
  return fresh_position(files) + (may_be_needed ? kReferencesMax * kRecordValueBytesMax * 2 : 0);
}

Reported<> ShardLog::begin(const LogReading& reading) {
  if (has_ring_) return open_writer({.end = std::nullopt, .floor_stamp = reading.end.stamp});
  const Reported<LogFiles> files = find_log_files(*spec_.disk, spec_.log);
  if (!files) return report(files.error());
  if (!ring_) {
    const RingIdentity identity = {.store = spec_.log.store, .shard = spec_.log.shard};
    const Reported<RingFile> memory = RingFile::make_in_memory(identity, spec_.ring_bytes);
    if (!memory) return report(memory.error());
    Reported<Ring> ring = Ring::open(*memory);
    if (!ring) return report(std::move(ring.error()));
    ring_.emplace(*std::move(ring));
  }
  ring_->empty();
  ring_->begin(position_without_ring(*files));
  return open_writer({.end = reading.end, .floor_stamp = 0});
}

Reported<> ShardLog::begin_failed() {
  REFRACT_CHECK(has_lost_ring());
  const Reported<LogFiles> files = find_log_files(*spec_.disk, spec_.log);
  if (!files) return report(files.error());
  ring_->begin(position_without_ring(*files));
  ring_->set_in_use();
  return open_writer(LogWriter::Continuation{});
}

Reported<> ShardLog::open_writer(const LogWriter::Continuation& place) {
  Reported<std::unique_ptr<LogWriter>> writer = LogWriter::open(
      spec_.log, spec_.options,
      {.disk = spec_.disk, .ring = &*ring_, .values = spec_.values, .clock = spec_.clock}, place);
  if (!writer) return report(std::move(writer.error()));
  writer_ = *std::move(writer);
  has_ring_ = true;
  collect_references();
  return {};
}

// Of a ring that was taken up: its large values are as unread as they were.
void ShardLog::collect_references() noexcept {
  acknowledged_floor_ = ring_->mark().log_position;
  RingMark mark = ring_->mark();
  while (mark.taken < ring_->appended()) {
    Record record;
    if (decode_record(ring_->bytes_at(mark.taken, ring_->appended() - mark.taken), mark.log_position,
                      ring_->key_of_log(), record) != RecordFault::kNone) {
      return;  // The writer meets it as well, and fails.
    }
    mark.taken += stored_bytes(record.form, record.key.size(), record.value_bytes);
    mark.log_position += log_bytes(record.key.size(), record.value_bytes);
    if (record.form != RecordForm::kReference || references_end_ == kReferencesMax) continue;
    references_[references_end_++ % kReferencesMax] = {record.reference, mark.log_position};
  }
  if (references_end_ > 0) writer_->hurry(ring_->appended());
}

Reported<> ShardLog::start(std::function<void()> on_progress) {
  REFRACT_CHECK(writer_ != nullptr && thread_ == nullptr);
  Reported<std::unique_ptr<LogThread>> thread =
      LogThread::start(*writer_, *ring_, *spec_.clock, spec_.log.shard, std::move(on_progress));
  if (!thread) return report(std::move(thread.error()));
  thread_ = *std::move(thread);
  return {};
}

// How many of the oldest references the log has passed.
uint64_t ShardLog::needless_references() const noexcept {
  const uint64_t written = writer_->written();
  uint64_t begin = references_begin_;
  while (begin < references_end_ && references_[begin % kReferencesMax].end <= written) ++begin;
  return begin - references_begin_;
}

ShardLog::Room ShardLog::room_for(uint64_t key_bytes, uint64_t value_bytes) const noexcept {
  const RecordForm form = is_reference(value_bytes) ? RecordForm::kReference : RecordForm::kInline;
  return room_for_stored(form, stored_bytes(form, key_bytes, value_bytes));
}

// More than a part of the ring might never fit beside what is appended meanwhile.
ShardLog::Room ShardLog::room_for_group(uint64_t changes, uint64_t bytes) const noexcept {
  const uint64_t stored = group_bytes_max(changes, bytes);
  return stored > ring_->bytes() / 4 ? Room::kTooLarge : room_for_stored(RecordForm::kInline, stored);
}

ShardLog::Room ShardLog::room_for_stored(RecordForm form, uint64_t stored) const noexcept {
  const LogState state = writer_->state();
  if (state == LogState::kFailed) return Room::kFailed;
  if (!writer_->has_begun()) return Room::kNoSpace;
  const bool is_stalled = state == LogState::kStalled;
  // A caller that waits for the disk would wait as long as it is full: it is told so now. With kEverySecond
  // that is the one that comes behind a large value, which is confirmed when it is written, and they in their
  // order.
  const bool has_large = references_begin_ + needless_references() != references_end_;
  if (is_stalled && (has_large || spec_.options.durability == Durability::kAlways)) return Room::kNoSpace;
  if (form == RecordForm::kReference) {
    const uint64_t pending = references_end_ - references_begin_;
    if (is_stalled) return Room::kNoSpace;
    if (pending == kReferencesMax && needless_references() == 0) return Room::kLater;
  }
  if (ring_->has_room(stored)) return Room::kYes;
  return is_stalled ? Room::kNoSpace : Room::kLater;
}

void ShardLog::append(const Change& change) noexcept {
  const bool is_apart = is_reference(change.value.size());
  REFRACT_DCHECK(!is_apart || change.kind != RecordKind::kHosted);
  const uint64_t begin = ring_->log_end();
  references_begin_ += needless_references();
  if (is_apart && references_begin_ == references_end_) acknowledged_floor_ = begin;
  ring_->append({.kind = change.kind,
                 .form = is_apart ? RecordForm::kReference : RecordForm::kInline,
                 .position = begin,
                 .stamp = change.stamp,
                 .synced_position = writer_->synced(),
                 .expires_wall_ns = change.expires_wall_ns,
                 .client = change.client,
                 .sequence = change.sequence,
                 .key = change.key,
                 .value = is_apart ? std::span<const std::byte>{} : change.value,
                 .value_bytes = change.value.size(),
                 .reference = change.buffer,
                 .store = change.store});
  if (!is_apart) return;
  REFRACT_CHECK(references_end_ - references_begin_ < kReferencesMax);
  references_[references_end_++ % kReferencesMax] = {change.buffer, ring_->log_end()};
  writer_->hurry(ring_->appended());
}

void ShardLog::append_group(uint64_t number, std::span<const Record> changes,
                            const GroupRole& role) noexcept {
  references_begin_ += needless_references();
  ring_->append_group(
      {.position = ring_->log_end(), .number = number, .synced_position = writer_->synced(), .role = role},
      changes);
}

void ShardLog::append_settled(uint64_t stamp, const GroupRole& of, bool has_happened) noexcept {
  references_begin_ += needless_references();
  ring_->append({.kind = RecordKind::kSettled,
                 .position = ring_->log_end(),
                 .stamp = stamp,
                 .synced_position = writer_->synced(),
                 .client = of.place,
                 .sequence = of.number,
                 .key = of.needs,
                 .has_happened = has_happened});
}

uint64_t ShardLog::confirmed() const noexcept {
  if (spec_.options.durability == Durability::kAlways) return writer_->synced();
  if (references_begin_ + needless_references() == references_end_) return ring_->log_end();
  return std::max(acknowledged_floor_, writer_->written());
}

uint64_t ShardLog::needed_until(uint64_t buffer) const noexcept {
  if (references_begin_ == references_end_) return 0;
  if (writer_->state() == LogState::kFailed) return 0;
  for (uint64_t i = references_begin_ + needless_references(); i < references_end_; ++i) {
    const Reference& reference = references_[i % kReferencesMax];
    if (reference.buffer == buffer) return reference.end;
  }
  return 0;
}

void ShardLog::ring_bell() noexcept {
  if (thread_ == nullptr) return;
  if (references_begin_ != references_end_ && writer_->has_requests()) {
    thread_->wake();
  } else {
    thread_->ring_bell();
  }
}

void ShardLog::want_progress() noexcept {
  if (thread_ == nullptr) return;
  thread_->want_progress();
  ring_bell();
}

void ShardLog::drop_up_to(uint64_t snapshot_stamp) noexcept {
  writer_->drop_up_to(snapshot_stamp);
  if (thread_ != nullptr) thread_->wake();
}

void ShardLog::restart(uint64_t snapshot_stamp) noexcept {
  writer_->restart(snapshot_stamp);
  if (thread_ != nullptr) thread_->wake();
}

}  // namespace refract::storage
