// SPDX-License-Identifier: Apache-2.0
// Finds records in one segment's file: the one at a position, and the next sound one behind a hole.
//
// Threads: one. Blocks as the disk does. Memory: a window of 1 MiB, or the largest record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "refract/base/report.h"
#include "refract/storage/disk.h"
#include "refract/storage/log/segment.h"
#include "refract/storage/record.h"

namespace refract::storage {

// A file that is read from front to back, a window at a time.
class ReadWindow {
 public:
  ReadWindow(File& file, uint64_t file_bytes) noexcept : file_(file), file_bytes_(file_bytes) {}

  // `bytes` bytes at `offset`, or fewer where the file ends. Stays until the next call.
  [[nodiscard]] Reported<std::span<const std::byte>> at(uint64_t offset, uint64_t bytes);
  // Likewise, and all that has been read behind them.
  [[nodiscard]] Reported<std::span<const std::byte>> from(uint64_t offset, uint64_t bytes);

 private:
  File& file_;
  uint64_t file_bytes_;
  std::vector<std::byte> buffer_;
  uint64_t begin_ = 0;
  uint64_t filled_ = 0;
};

class SegmentScan {
 public:
  // A record or a mark that is sound in itself.
  struct Sound {
    uint64_t position = 0;
    uint64_t bytes = 0;   // Up to the next one; of a mark, to where one could begin.
    uint64_t stamp = 0;   // Of a mark, the highest in front of it.
    uint64_t synced = 0;  // Everything in front of this position was confirmed.
    bool is_mark = false;
  };
  // What stands behind a hole.
  struct Behind {
    std::optional<Sound> first = {};
    bool knows_synced = false;  // One of them says that the hole had been confirmed: so it is damage.
    uint64_t records = 0;       // Sound ones, as far as was looked: to the end, or to the one that knows.
    uint64_t end = 0;           // Of the last one of them.
  };

  // All outlive it.
  SegmentScan(File& file, const Segment& segment, uint64_t key_of_log) noexcept
      : window_(file, segment.file_bytes), segment_(segment), key_of_log_(key_of_log) {}

  // The record at `position`, which ends at `limit` at the latest; its spans stay until the next call.
  [[nodiscard]] Reported<RecordFault> record_at(uint64_t position, uint64_t limit, Record& record);
  [[nodiscard]] Reported<std::optional<LogMark>> mark_at(uint64_t position);
  [[nodiscard]] Reported<uint64_t> next_candidate(uint64_t position, uint64_t limit);
  [[nodiscard]] Reported<std::optional<Sound>> next_sound(uint64_t position, uint64_t limit);
  [[nodiscard]] Reported<Behind> look_behind(uint64_t hole, uint64_t limit);
  // How long the record at `position` says it is, though it is not sound; 0: nothing like a record is there.
  [[nodiscard]] Reported<uint64_t> announced_bytes(uint64_t position, uint64_t limit);

 private:
  [[nodiscard]] Reported<std::optional<Sound>> sound_at(uint64_t position, uint64_t limit);
  [[nodiscard]] uint64_t offset_of(uint64_t position) const noexcept {
    return kSegmentHeaderBytes + position - segment_.first_position;
  }

  ReadWindow window_;
  const Segment& segment_;
  uint64_t key_of_log_;
};

}  // namespace refract::storage
