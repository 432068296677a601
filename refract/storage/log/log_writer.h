// SPDX-License-Identifier: Apache-2.0
// A LogWriter brings what a shard left in its ring into segments, and to the disk: one round at a time, so
// that a thread of its own (LogThread) or a test drives it. See docs/design/025-log.md.
//
//   (W1) What is published as written is in the page cache, as synced on the disk: up to there read_log finds
//        the records, whether the process or the host dies.
//   (W2) Records go into a new segment only when everything in the one before is synced, so that only the
//        last segment can end torn.
//   (W3) After a sync or a write has failed, nothing is published any more, and no file of before is trusted,
//        until restart() is told of a snapshot that has everything.
//   (W4) A disk without room for the next segment stalls the log, and nothing else: what is in the ring stays
//        there, and is written when there is room. A log that has files and no room for the first segment of
//        its own has not begun: nothing may be appended before it has.
//   (W5) Behind what is synced a mark says so (LogMark), once a round finds nothing else to do; at the end of
//        a segment, once the next one is there. So the end of a log that rests cannot pass for a torn tail,
//        and a last segment that is gone is missed.
//   (W6) Stamps that a start has skipped stay skipped: before a change has a stamp above them, the header of
//   a
//        segment that is on the disk says so (first_stamp).
//
// Threads: step() and open() are called by one thread; the functions below "any thread" by all. Blocks as the
// disk does.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/histogram.h"
#include "refract/base/report.h"
#include "refract/storage/disk.h"
#include "refract/storage/log/segment.h"
#include "refract/storage/ring/ring.h"

namespace refract::storage {

enum class Durability : uint8_t { kEverySecond, kAlways };

// Where large values lie; called by the log's thread.
class ValueSource {
 public:
  virtual ~ValueSource() = default;
  // The value's bytes, which stay as they are until the log has passed the record (ShardLog::needed_until);
  // nothing where the buffer has another stamp than the record by now.
  [[nodiscard]] virtual std::optional<std::span<const std::byte>> value_of(const Record& record) noexcept = 0;
};

struct LogOptions {
  Durability durability = Durability::kEverySecond;
  uint64_t segment_bytes = uint64_t{64} << 20;  // A larger record gets a segment of its own size.
  uint64_t sync_every_ns = 1'000'000'000;  // kEverySecond: at most this long between appending and syncing.
  uint64_t retry_ns = 250'000'000;         // How long a log without room waits before it looks again.
  uint32_t spares_max = 2;                 // Segments that are kept for reuse.
};

enum class LogState : uint8_t {
  kRunning,
  kStalled,  // No room on the disk for the next segment.
  kFailed,   // A sync or a write failed: nothing will be confirmed before restart().
};

struct LogCounters {
  uint64_t records = 0;
  uint64_t bytes = 0;   // Written into segments.
  uint64_t writes = 0;  // Calls of the disk.
  uint64_t syncs = 0;
  uint64_t segments_made = 0;
  uint64_t segments_recycled = 0;
  uint64_t segments_dropped = 0;
  Histogram sync_ns = {};
  uint64_t last_sync_ns = 0;  // When the last one ended, by the log's clock; 0: there was none.
};

// Where a log ends that was read back (read_log), or that begins now.
struct LogEnd {
  uint64_t position = kFirstPosition;
  uint64_t stamp = 0;  // No change up to this stamp will come; what it has is in the log or in a snapshot.
  uint64_t behind_stamp = 0;  // Of a log without files: the snapshot's that it begins behind.
  bool is_cut = false;        // Its files have more, which does not count.
};

class LogWriter {
 public:
  struct Parts {
    Disk* disk = nullptr;
    Ring* ring = nullptr;
    ValueSource* values = nullptr;  // None: then no record may refer to a value.
    const Clock* clock = nullptr;
  };

  struct Step {
    bool did_something = false;
    uint64_t due_ns = kForever_ns;  // step() is wanted then, even if nothing is appended.
    uint64_t wake_at = UINT64_MAX;  // ... and when this ring position has been appended.
  };

  // Where a log that is opened continues.
  struct Continuation {
    // Where the segments end, for a ring that begins at fresh_position(): a new segment is begun. Nothing for
    // a ring that was taken up: its segment is there.
    std::optional<LogEnd> end;
    // Of a ring that was taken up: no change up to this stamp will come. If no segment says so yet, a new one
    // is begun behind what the ring holds, and nothing may be appended before that (W6).
    uint64_t floor_stamp = 0;
  };

  // Continues where the ring's mark is. kCorrupt: ring and segments do not fit together. A ring that says
  // that the log failed: kFailed.
  [[nodiscard]] static Reported<std::unique_ptr<LogWriter>> open(const LogId& log, const LogOptions& options,
                                                                 const Parts& parts,
                                                                 const Continuation& place);
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;
  ~LogWriter() = default;

  // One round: takes what is in the ring, writes, syncs as the mode says, publishes.
  Step step();
  // Rounds until everything that had been appended is synced; false: it failed, or the disk is full.
  [[nodiscard]] bool drain();

  // Any thread. Log positions: everything before has been written, or synced.
  [[nodiscard]] uint64_t written() const noexcept { return written_.load(std::memory_order_acquire); }
  [[nodiscard]] uint64_t synced() const noexcept { return synced_.load(std::memory_order_acquire); }
  [[nodiscard]] LogState state() const noexcept { return state_.load(std::memory_order_acquire); }
  // Something may be appended (W4).
  [[nodiscard]] bool has_begun() const noexcept { return has_begun_.load(std::memory_order_acquire); }
  // Why the log stalls or failed; empty otherwise.
  [[nodiscard]] std::string trouble() const;
  [[nodiscard]] LogCounters counters() const;
  // Where the oldest segment begins. REQUIRES: no other thread works on it.
  [[nodiscard]] uint64_t first_position() const noexcept {
    return segments_.empty() ? written() : segments_.front().first_position;
  }
  // What the segments hold, without what lies between them. REQUIRES: likewise.
  [[nodiscard]] uint64_t record_bytes() const noexcept;
  // Segments are on the disk, and what they take.
  [[nodiscard]] uint64_t disk_bytes() const noexcept { return disk_bytes_.load(std::memory_order_relaxed); }

  // What was appended up to this ring position is wanted in a segment at once, whatever the mode.
  void hurry(uint64_t ring_position) noexcept;
  // A snapshot at this stamp is on the disk: segments that hold nothing above it go, with the next step.
  void drop_up_to(uint64_t stamp) noexcept;
  // Of a log that failed: a snapshot at this stamp is on the disk, written since. The log begins again behind
  // it, with the next step, and is sound again if that succeeds.
  void restart(uint64_t snapshot_stamp) noexcept;
  [[nodiscard]] bool has_requests() const noexcept;

 private:
  struct Current {
    std::unique_ptr<File> file;
    uint64_t writeback_from = 0;  // Offset in the file up to which the disk was asked to begin.
  };
  struct Spare {
    std::string name;
    std::unique_ptr<File> file;
    uint64_t bytes = 0;
    uint64_t zeroed = 0;  // Up to where its blocks have been written, so that writing again is cheap.
  };

  LogWriter(const LogId& log, const LogOptions& options, const Parts& parts) noexcept
      : log_(log), options_(options), parts_(parts) {}
  [[nodiscard]] Reported<> find_place(const Continuation& place);
  [[nodiscard]] Reported<> go_on_in_last(uint64_t floor_stamp);
  [[nodiscard]] Reported<> go_on_behind(const LogEnd& end);
  [[nodiscard]] Reported<> try_first(const Segment& first);
  [[nodiscard]] Reported<> begin_first();

  [[nodiscard]] bool take_records();
  [[nodiscard]] Reported<> take_all(uint64_t appended);
  [[nodiscard]] Reported<> take_run(uint64_t appended);
  [[nodiscard]] Reported<> write_large(const Record& record);
  [[nodiscard]] Reported<> write(uint64_t position, std::span<const std::byte> bytes);
  [[nodiscard]] Reported<> next_segment(Segment segment, uint64_t bytes);
  [[nodiscard]] Reported<> sync_current();
  void leave_mark();
  [[nodiscard]] Reported<> mark_continued(const Segment& old, File& file, const Segment& next);
  [[nodiscard]] bool fits(uint64_t position, uint64_t bytes) const noexcept;
  [[nodiscard]] Reported<> turn_into(Spare& spare, const Segment& segment);
  void give_back(Spare spare, const Report& why);
  [[nodiscard]] Reported<Spare> take_spare(uint64_t bytes);
  [[nodiscard]] Reported<Spare> make_spare(uint64_t bytes);
  [[nodiscard]] bool prepare_spare(uint64_t now_ns);
  [[nodiscard]] bool zero_some(Spare& spare);
  [[nodiscard]] bool is_due(uint64_t now_ns) const noexcept;
  [[nodiscard]] bool wants_records(uint64_t now_ns) const noexcept;
  [[nodiscard]] Step next_step(bool did_something, uint64_t now_ns) const noexcept;
  [[nodiscard]] bool serve_requests();
  [[nodiscard]] Reported<> begin_again(uint64_t stamp);
  [[nodiscard]] Reported<RingMark> behind_stamp(uint64_t stamp) const;
  void drop_segments(uint64_t stamp);
  [[nodiscard]] Reported<> retire(const Segment& segment);
  void note_trouble(const Report& trouble);
  void set_state(LogState state, const std::string& why);
  void publish_written(uint64_t position) noexcept;
  void count_disk_bytes() noexcept;

  LogId log_;
  LogOptions options_;
  Parts parts_;
  Current current_;
  std::vector<Segment> segments_;  // Sorted; the last one is what current_ has open.
  std::vector<Spare> spares_;
  std::optional<Segment> first_;    // To be begun, while has_begun_ is false.
  uint64_t highest_stamp_ = 0;      // Of what was taken by this writer.
  uint64_t marked_ = 0;             // Where the last mark was left.
  uint64_t unsynced_since_ns_ = 0;  // When something unsynced was first seen; 0: there is nothing.
  uint64_t retry_at_ns_ = 0;        // kStalled, or a spare that could not be made.
  uint64_t spare_number_ = 0;       // For the next spare's name.
  bool told_no_spare_ = false;      // Since the last one could be made.
  bool is_draining_ = false;

  std::atomic<uint64_t> written_ = 0;
  std::atomic<uint64_t> synced_ = 0;
  std::atomic<LogState> state_ = LogState::kRunning;
  std::atomic<bool> has_begun_ = true;
  std::atomic<uint64_t> urgent_ = 0;         // A ring position.
  std::atomic<uint64_t> drop_stamp_ = 0;     // A request; 0: none.
  std::atomic<uint64_t> restart_stamp_ = 0;  // Likewise, plus 1, since a snapshot of nothing has stamp 0.
  std::atomic<uint64_t> disk_bytes_ = 0;
  mutable std::mutex mutex_;  // Over the two below.
  LogCounters counters_;
  std::string trouble_;
};

}  // namespace refract::storage
