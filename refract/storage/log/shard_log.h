// SPDX-License-Identifier: Apache-2.0
// A ShardLog is a shard's log as its owner sees it: it takes changes, says up to where they may be
// acknowledged, and, behind a crash, gives back what it has.
//
//   open()   finds the ring and the files. Then, depending on whether the shard's memory is there:
//   read()   hands out all changes behind a snapshot: for a memory that is gone;
//            or last_record(), when the memory is there and has_ring(): the one change that may be missing in
//            it.
//   begin()  makes it ready for changes; drain(), before buffers are reused that changes may refer to.
//   start()  gives it a thread; tests call step() instead.
//
// Positions count bytes of the log (record.h). Small changes are copied into the ring. A value of
// reference_bytes or more stays where it is, and its buffer must not be reused while needed_until() says so.
// Several changes that take effect together are a group: they come back together, or none does.
//
// Threads: the shard's, but for what says otherwise. append() and everything near it does not block, does not
// allocate, and calls the system only to wake a sleeping thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "refract/base/report.h"
#include "refract/storage/group.h"
#include "refract/storage/log/log_reader.h"
#include "refract/storage/log/log_thread.h"
#include "refract/storage/log/log_writer.h"
#include "refract/storage/ring/ring.h"
#include "refract/storage/ring/ring_file.h"

namespace refract::storage {

struct ShardLogSpec {
  LogId log = {};
  LogOptions options = {};
  const RingFile* ring = nullptr;  // Null: memory of ring_bytes, which no death of the process survives.
  uint64_t ring_bytes = kRingBytesDefault;
  bool empties_ring = false;  // What it holds is damaged, or does not count.
  Disk* disk = nullptr;
  ValueSource* values = nullptr;
  const Clock* clock = nullptr;
  uint64_t reference_bytes = 64 * kKiB;  // Values of this size and more are not copied into the ring.
};

class ShardLog {
 public:
  struct Change {
    RecordKind kind = RecordKind::kPut;
    uint64_t stamp = 0;  // Higher than all before.
    uint64_t expires_wall_ns = 0;
    uint64_t client = 0;
    uint64_t sequence = 0;
    std::span<const std::byte> key = {};
    std::span<const std::byte> value = {};
    uint64_t buffer = 0;   // Where the value lies in the space; used from reference_bytes on.
    StoreName store = {};  // Of kHosted, whose values are shorter than that.
  };
  enum class Room : uint8_t {
    kYes,
    kLater,     // The log has to get on first; want_progress() tells when it has.
    kNoSpace,   // Likewise, but the disk is full, and that may take long.
    kFailed,    // Not before restart().
    kTooLarge,  // Never: room_for_group() alone.
  };

  struct Progress {
    uint64_t confirmed = 0;
    uint64_t written = 0;  // Room in the ring, and references that are not needed any more, come with it.
    LogState state = LogState::kRunning;
    friend bool operator==(const Progress&, const Progress&) noexcept = default;
  };

  // Takes up what the ring holds, where it is in use; changes nothing yet. A ring that the log's files have
  // left behind counts as none, and is named: it comes from a copy, or a device has lost its last stores.
  [[nodiscard]] static Reported<std::unique_ptr<ShardLog>> open(const ShardLogSpec& spec);
  ShardLog(const ShardLog&) = delete;
  ShardLog& operator=(const ShardLog&) = delete;
  // Stops the thread. What is in the ring stays there, for the next open(), when the ring is a file's.
  ~ShardLog();

  // The ring holds what counts.
  [[nodiscard]] bool has_ring() const noexcept { return has_ring_; }
  // The change, or the group, that was appended last, as it stands in the ring; nothing where none is known.
  [[nodiscard]] std::optional<Record> last_record() const noexcept;
  // See read_log(). REQUIRES: begin() has not been called.
  [[nodiscard]] Reported<LogReading> read(const LogReadOptions& options,
                                          const std::function<void(const Record&)>& on_record);
  // With a ring the log continues where that one is. Without: behind `reading`, or, where there are no files,
  // at the start. No change up to `reading.end.stamp` will come, and the disk says so before one is appended.
  [[nodiscard]] Reported<> begin(const LogReading& reading);
  // What the ring held is damaged, or was cut away.
  [[nodiscard]] bool has_lost_ring() const noexcept { return ring_ && ring_->is_lost(); }
  // All that the ring held is in the shard's memory: the log has failed, and continues when a snapshot has
  // everything. REQUIRES: has_lost_ring(), and files of the log.
  [[nodiscard]] Reported<> begin_failed();
  // Any thread may be told of progress, by the log's thread: see want_progress().
  [[nodiscard]] Reported<> start(std::function<void()> on_progress);

  // --- Changes. REQUIRES: begin(). ---

  [[nodiscard]] Room room_for(uint64_t key_bytes, uint64_t value_bytes) const noexcept;
  // REQUIRES: room_for() said kYes since the last append.
  void append(const Change& change) noexcept;
  // For a group (group.h) of so many changes, whose keys and values together have so many bytes. Values are
  // never apart here; so a quarter of the ring is the most.
  [[nodiscard]] Room room_for_group(uint64_t changes, uint64_t bytes) const noexcept;
  // All of them, or after any death none. `number` is below their stamps and above all before. REQUIRES:
  // room_for_group() said kYes since the last append; what encode_group() asks for.
  void append_group(uint64_t number, std::span<const Record> changes, const GroupRole& role = {}) noexcept;
  // A kSettled of this name. REQUIRES: room_for() said kYes to a key as long as what it needs since the last
  // append.
  void append_settled(uint64_t stamp, const GroupRole& of, bool has_happened) noexcept;
  // Where the last change ends.
  [[nodiscard]] uint64_t appended() const noexcept { return ring_->log_end(); }
  // Changes that end here or before may be acknowledged. Does not grow any more once the log has failed.
  [[nodiscard]] uint64_t confirmed() const noexcept;
  // What others wait for: that changes are confirmed, that room comes, that the log fails or recovers. Room
  // may come without any change being confirmed: with kEverySecond those are as soon as they are appended.
  [[nodiscard]] Progress progress() const noexcept {
    return {.confirmed = confirmed(), .written = writer_->written(), .state = writer_->state()};
  }
  // The position that confirmed() must reach before this buffer may be reused; 0: it may be now.
  [[nodiscard]] uint64_t needed_until(uint64_t buffer) const noexcept;
  // At the end of a turn in which something was appended: wakes the log's thread if it sleeps.
  void ring_bell() noexcept;
  // Before sleeping: `on_progress` will be called when progress() may have changed. Look at it again
  // afterwards.
  void want_progress() noexcept;

  // --- Any thread. REQUIRES: begin(). ---

  [[nodiscard]] LogState state() const noexcept { return writer_->state(); }
  // A log that continues without its ring takes nothing before that is on the disk.
  [[nodiscard]] bool has_begun() const noexcept { return writer_->has_begun(); }
  // Changes that end here or before are on the disk. They survive the death of the host, unless they follow
  // from what another shard's log loses in it (common_end.h).
  [[nodiscard]] uint64_t synced() const noexcept { return writer_->synced(); }
  [[nodiscard]] std::string trouble() const { return writer_->trouble(); }
  [[nodiscard]] LogCounters counters() const { return writer_->counters(); }
  [[nodiscard]] uint64_t disk_bytes() const noexcept { return writer_->disk_bytes(); }
  void drop_up_to(uint64_t snapshot_stamp) noexcept;
  void restart(uint64_t snapshot_stamp) noexcept;

  // --- Without a thread. ---

  LogWriter::Step step() { return writer_->step(); }
  // Everything that was appended is in the segments, and synced. REQUIRES: no thread.
  [[nodiscard]] bool drain() { return writer_->drain(); }
  // Where the oldest segment begins. REQUIRES: begin().
  [[nodiscard]] uint64_t first_position() const noexcept { return writer_->first_position(); }
  // What the segments hold; likewise.
  [[nodiscard]] uint64_t record_bytes() const noexcept { return writer_->record_bytes(); }
  // Ends the thread; then drain() may be called, for a stop that leaves nothing in the ring.
  void stop() noexcept { thread_.reset(); }

 private:
  static constexpr size_t kReferencesMax = 256;
  struct Reference {
    uint64_t buffer = 0;
    uint64_t end = 0;  // Position.
  };

  explicit ShardLog(const ShardLogSpec& spec) noexcept : spec_(spec) {}
  [[nodiscard]] bool is_reference(uint64_t value_bytes) const noexcept {
    return value_bytes >= spec_.reference_bytes;
  }
  [[nodiscard]] Room room_for_stored(RecordForm form, uint64_t stored) const noexcept;
  [[nodiscard]] uint64_t needless_references() const noexcept;
  void collect_references() noexcept;

  [[nodiscard]] Reported<bool> is_left_behind();
  [[nodiscard]] uint64_t position_without_ring(const LogFiles& files) const noexcept;
  [[nodiscard]] Reported<> open_writer(const LogWriter::Continuation& place);

  ShardLogSpec spec_;
  std::optional<Ring> ring_;
  bool has_ring_ = false;
  std::unique_ptr<LogWriter> writer_;
  std::unique_ptr<LogThread> thread_;
  // Values that lie elsewhere and that the log may not have read yet, oldest first, in a circle.
  std::array<Reference, kReferencesMax> references_;
  uint64_t references_begin_ = 0;
  uint64_t references_end_ = 0;
  uint64_t acknowledged_floor_ = 0;  // kEverySecond: could be acknowledged before the oldest reference.
};

}  // namespace refract::storage
