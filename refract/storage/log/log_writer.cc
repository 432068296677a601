// SPDX-License-Identifier: Apache-2.0
#include "refract/storage/log/log_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/log.h"
#include "refract/base/units.h"

namespace refract::storage {
namespace {

// What one call of the disk writes at most: room in the ring comes back in such pieces.
constexpr uint64_t kRunBytesMax = kMiB;
// The disk is asked to begin after so much, so that a sync finds little left to do.
constexpr uint64_t kWritebackBytes = 2 * kMiB;

}  // namespace

LogWriter::Step LogWriter::step() {
  bool did_something = serve_requests();
  uint64_t now_ns = parts_.clock->now_ns();
  if (state() == LogState::kFailed || (state() == LogState::kStalled && now_ns < retry_at_ns_)) {
    return next_step(did_something, now_ns);
  }
  if (!has_begun()) {
    if (Reported<> begun = begin_first(); !begun) {
      note_trouble(begun.error());
      return next_step(did_something, now_ns);
    }
    did_something = true;
    set_state(LogState::kRunning, {});
  }
  const bool has_records = parts_.ring->observe_appended() > parts_.ring->mark().taken;
  if (has_records && unsynced_since_ns_ == 0) unsynced_since_ns_ = std::max<uint64_t>(now_ns, 1);
  if (has_records && (state() == LogState::kStalled || wants_records(now_ns)))
    did_something |= take_records();
  // Beginning a segment syncs the one before, and what was written behind that starts to wait again.
  if (synced() < written() && unsynced_since_ns_ == 0) unsynced_since_ns_ = std::max<uint64_t>(now_ns, 1);
  if (state() != LogState::kFailed && synced() < written() && is_due(now_ns)) {
    did_something = true;
    if (Reported<> done = sync_current(); !done) note_trouble(done.error());
  }
  now_ns = parts_.clock->now_ns();
  if (state() != LogState::kFailed) did_something |= prepare_spare(now_ns);
  if (!did_something) leave_mark();
  return next_step(did_something, now_ns);
}

bool LogWriter::drain() {
  is_draining_ = true;
  const uint64_t wanted = parts_.ring->observe_appended();
  while (parts_.ring->mark().taken < wanted || synced() < written()) {
    if (state() == LogState::kStalled) retry_at_ns_ = 0;
    (void)step();
    if (state() != LogState::kRunning) break;
  }
  leave_mark();
  is_draining_ = false;
  return state() == LogState::kRunning;
}

// Whether what is unsynced has waited long enough.
bool LogWriter::is_due(uint64_t now_ns) const noexcept {
  return options_.durability == Durability::kAlways || is_draining_ ||
         now_ns >= unsynced_since_ns_ + options_.sync_every_ns;
}

// With kEverySecond the ring is as safe as the page cache, so nothing is gained by emptying it at once; fewer
// and larger writes cost less.
bool LogWriter::wants_records(uint64_t now_ns) const noexcept {
  const Ring& ring = *parts_.ring;
  const uint64_t taken = ring.mark().taken;
  return is_due(now_ns) || ring.observe_appended() - taken >= ring.bytes() / 4 ||
         taken < urgent_.load(std::memory_order_acquire);
}

LogWriter::Step LogWriter::next_step(bool did_something, uint64_t now_ns) const noexcept {
  Step next = {.did_something = did_something, .due_ns = kForever_ns, .wake_at = UINT64_MAX};
  const Ring& ring = *parts_.ring;
  switch (state()) {
    case LogState::kFailed:
      break;
    case LogState::kStalled:
      next.due_ns = std::max(retry_at_ns_, now_ns + 1);
      break;
    case LogState::kRunning: {
      const bool is_clean = unsynced_since_ns_ == 0 || options_.durability == Durability::kAlways;
      next.wake_at = ring.mark().taken + (is_clean ? 1 : ring.bytes() / 4);
      if (!is_clean) next.due_ns = unsynced_since_ns_ + options_.sync_every_ns;
      break;
    }
  }
  return next;
}

bool LogWriter::take_records() {
  const Ring& ring = *parts_.ring;
  const uint64_t appended = ring.observe_appended();
  bool took = false;
  while (ring.mark().taken < appended) {
    if (Reported<> done = take_run(appended); !done) {
      note_trouble(done.error());
      return took;
    }
    took = true;
  }
  if (state() == LogState::kStalled) set_state(LogState::kRunning, {});
  return took;
}

Reported<> LogWriter::take_all(uint64_t appended) {
  while (parts_.ring->mark().taken < appended) {
    if (Reported<> done = take_run(appended); !done) return done;
  }
  return {};
}

// One write: as many records as lie behind each other and fit into the segment, or one whose value is not
// there.
Reported<> LogWriter::take_run(uint64_t appended) {
  Ring& ring = *parts_.ring;
  const RingMark from = ring.mark();
  RingMark to = from;
  uint64_t records = 0;
  while (to.taken < appended && to.taken - from.taken < kRunBytesMax) {
    RecordHeader header = {};
    const RecordFault fault = peek_record(ring.bytes_at(to.taken, sizeof(header)), to.log_position, header);
    if (fault != RecordFault::kNone) {
      return report(Code::kCorrupt, "a record in the log's ring has been overwritten");
    }
    const uint64_t bytes = log_bytes(header.key_bytes, header.value_bytes);
    if (!fits(to.log_position, bytes)) {
      if (to.taken != from.taken) break;
      const Segment next = {
          .first_position = to.log_position, .previous_end = to.log_position, .first_stamp = header.stamp};
      if (Reported<> begun = next_segment(next, bytes); !begun) return begun;
    }
    highest_stamp_ = std::max(highest_stamp_, last_stamp_of(header));
    const uint64_t stored = stored_bytes(header.form, header.key_bytes, header.value_bytes);
    const bool is_apart = header.form != RecordForm::kInline;
    if (is_apart && to.taken != from.taken) break;
    to.taken += stored;
    to.log_position += bytes;
    ++records;
    if (!is_apart) continue;
    Record record;
    if (decode_record(ring.bytes_at(from.taken, stored), from.log_position, ring.key_of_log(), record) !=
        RecordFault::kNone) {
      return report(Code::kCorrupt, "a record in the log's ring has been overwritten");
    }
    if (Reported<> done = write_large(record); !done) return done;
    break;
  }
  const bool is_run = to.log_position - from.log_position == to.taken - from.taken;
  if (is_run) {
    const Reported<> done = write(from.log_position, ring.bytes_at(from.taken, to.taken - from.taken));
    if (!done) return done;
  }
  {
    const std::scoped_lock guard(mutex_);
    counters_.records += records;
  }
  ring.take(to);
  publish_written(to.log_position);
  return {};
}

Reported<> LogWriter::write_large(const Record& record) {
  Record whole = record;
  const std::optional<std::span<const std::byte>> value =
      parts_.values == nullptr ? std::nullopt : parts_.values->value_of(record);
  if (!value || value->size() != record.value_bytes) {
    whole.form = RecordForm::kAbsent;
    std::vector<std::byte> bytes(stored_bytes(whole.form, whole.key.size(), whole.value_bytes));
    encode_record(whole, parts_.ring->key_of_log(), bytes.data());
    return write(whole.position, bytes);
  }
  whole.form = RecordForm::kInline;
  whole.value = *value;
  const RecordHeader header = seal_header(whole, parts_.ring->key_of_log());
  std::vector<std::byte> front(sizeof(header) + whole.key.size());
  std::memcpy(front.data(), &header, sizeof(header));
  std::ranges::copy(whole.key, front.begin() + sizeof(header));
  if (Reported<> done = write(whole.position, front); !done) return done;
  if (Reported<> done = write(whole.position + front.size(), whole.value); !done) return done;
  const uint64_t used = front.size() + whole.value.size();
  constexpr std::byte kZeros[kRecordUnit] = {};
  return write(whole.position + used, std::span(kZeros).first(round_up(used, kRecordUnit) - used));
}

Reported<> LogWriter::write(uint64_t position, std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  const uint64_t offset = kSegmentHeaderBytes + position - segments_.back().first_position;
  if (Reported<> done = current_.file->write(offset, bytes); !done) return done;
  const uint64_t end = offset + bytes.size();
  if (end - current_.writeback_from >= kWritebackBytes) {
    current_.file->start_writeback(current_.writeback_from, end - current_.writeback_from);
    current_.writeback_from = end;
  }
  const std::scoped_lock guard(mutex_);
  counters_.bytes += bytes.size();
  ++counters_.writes;
  return {};
}

Reported<> LogWriter::sync_current() {
  const uint64_t position = written();
  const uint64_t begin_ns = parts_.clock->now_ns();
  Reported<> done = current_.file->sync();
  // Whatever it was, also a lack of room that only came out now: the kernel has forgotten what was dirty.
  if (!done) return report(Code::kSystem, std::move(done.error().what), std::move(done.error().next));
  synced_.store(position, std::memory_order_release);
  unsynced_since_ns_ = 0;
  const std::scoped_lock guard(mutex_);
  ++counters_.syncs;
  counters_.last_sync_ns = parts_.clock->now_ns();
  counters_.sync_ns.record(counters_.last_sync_ns - begin_ns);
  return {};
}

// (W5) It costs a write into a page that the next record dirties anyway, and no answer waits for it.
void LogWriter::leave_mark() {
  const uint64_t position = written();
  const Segment& segment = segments_.back();
  const bool is_wanted = state() == LogState::kRunning && synced() == position && marked_ != position &&
                         position > segment.first_position;
  if (!is_wanted || current_.file == nullptr || position + sizeof(LogMark) > segment.end_max()) return;
  marked_ = position;
  const LogMark mark = make_mark(position, highest_stamp_, 0, parts_.ring->key_of_log());
  const uint64_t offset = kSegmentHeaderBytes + position - segment.first_position;
  const Reported<> done = current_.file->write(offset, std::as_bytes(std::span(&mark, 1)));
  // No caller waits for it, so that nothing would end a stall; the next record meets a full disk as well.
  if (!done && done.error().code != Code::kNoSpace) note_trouble(done.error());
}

bool LogWriter::fits(uint64_t position, uint64_t bytes) const noexcept {
  return position + bytes + sizeof(LogMark) <= segments_.back().end_max();
}

void LogWriter::publish_written(uint64_t position) noexcept {
  written_.store(position, std::memory_order_release);
}

// A lack of room is waited out; everything else is the end until restart() (W3, W4).
void LogWriter::note_trouble(const Report& trouble) {
  if (trouble.code == Code::kNoSpace) {
    retry_at_ns_ = parts_.clock->now_ns() + options_.retry_ns;
    if (state() != LogState::kStalled) {
      log_error("the log of shard {} waits for room: {}", log_.shard, trouble.to_line());
    }
    set_state(LogState::kStalled, trouble.to_line());
    return;
  }
  log_error("the log of shard {} has failed, the node takes no more writes: {}", log_.shard,
            trouble.to_line());
  parts_.ring->set_failed(true);
  set_state(LogState::kFailed, trouble.to_line());
}

void LogWriter::set_state(LogState state, const std::string& why) {
  {
    const std::scoped_lock guard(mutex_);
    trouble_ = why;
  }
  if (state_.exchange(state) == LogState::kStalled && state == LogState::kRunning) {
    log_info("the log of shard {} has room again", log_.shard);
  }
}

std::string LogWriter::trouble() const {
  const std::scoped_lock guard(mutex_);
  return trouble_;
}

LogCounters LogWriter::counters() const {
  const std::scoped_lock guard(mutex_);
  return counters_;
}

void LogWriter::hurry(uint64_t ring_position) noexcept {
  urgent_.store(ring_position, std::memory_order_release);
}

void LogWriter::drop_up_to(uint64_t stamp) noexcept {
  drop_stamp_.store(stamp, std::memory_order_release);
}

void LogWriter::restart(uint64_t snapshot_stamp) noexcept {
  restart_stamp_.store(snapshot_stamp + 1, std::memory_order_release);
}

bool LogWriter::has_requests() const noexcept {
  return drop_stamp_.load(std::memory_order_acquire) != 0 ||
         restart_stamp_.load(std::memory_order_acquire) != 0 ||
         (options_.durability == Durability::kEverySecond &&
          parts_.ring->observe_taken() < urgent_.load(std::memory_order_acquire));
}

}  // namespace refract::storage
