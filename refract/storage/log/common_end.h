// SPDX-License-Identifier: Apache-2.0
// Where the logs of a store's shards end together, when the host has died and each has lost the end that it
// had not synced: the longest ends with which no record needs what another log has lost. What a record needs
// stands in it, where others have a key; docs/design/068-common-end.md says why this suffices.
//
// Threads: one for each. Memory: some 40 bytes for each record that needs something, and 16 for each shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "refract/storage/log/log_reader.h"
#include "refract/storage/record.h"

namespace refract::storage {

// Of one shard's log: where its last record ended when another one was written, and up to where it was
// synced.
struct LogStand {
  uint64_t position = 0;
  uint64_t synced = 0;  // Or a little less.
};

// What a record needs: of kDecided the stands of all shards, from 0 on; of kSettled that of its home's shard.
[[nodiscard]] std::vector<std::byte> encode_needs(std::span<const LogStand> stands);
[[nodiscard]] constexpr uint64_t needs_bytes(uint64_t shards) noexcept {
  return round_up(shards * (sizeof(uint64_t) + sizeof(uint32_t)), kRecordUnit);
}

// One log: what it has, and what its records need of the others.
class LogNeeds {
 public:
  // Of each record of the log, in their order.
  void take(const Record& record);
  // What was read of the log, whether its ring has what the files lack, and up to where the snapshot in front
  // of it has everything; 0: there is none, or it does not say.
  void end_with(const LogReading& reading, bool has_ring, uint64_t snapshot_position);

  // Whether a need is met by this log, if it ends there.
  [[nodiscard]] bool has(uint64_t position, uint64_t end) const noexcept;
  [[nodiscard]] uint64_t end() const noexcept { return end_; }
  // The needs are of the shards of these logs.
  // Where the first record stands that needs more than logs with these ends have; if there is none, end().
  [[nodiscard]] uint64_t end_among(std::span<const LogNeeds> logs, std::span<const uint64_t> ends) const;
  // A shard whose log lacks what was on the disk by what this one says; nothing: there is none.
  [[nodiscard]] std::optional<uint64_t> shard_with_loss(std::span<const LogNeeds> logs) const;

 private:
  struct Need {
    uint64_t position = 0;  // Of the record.
    uint64_t first_shard = 0;
    uint64_t first = 0;  // In stands_: one for each shard from first_shard on,
    uint64_t count = 0;  // so many.
  };
  [[nodiscard]] bool had_on_disk(uint64_t position) const noexcept;

  std::vector<Need> needs_;
  std::vector<LogStand> stands_;
  std::vector<LogGap> gaps_;
  uint64_t snapshot_position_ = 0;
  uint64_t end_ = UINT64_MAX;
};

struct CommonEnds {
  // One for each shard. A log that is whole and keeps everything ends at UINT64_MAX.
  std::vector<uint64_t> ends = {};
  // A shard whose files lack what had been on the disk: no crash does that, and nothing may be cut for it.
  std::optional<uint64_t> shard_with_loss = {};
};
// By shards, from 0 on.
[[nodiscard]] CommonEnds common_ends(std::span<const LogNeeds> logs);

}  // namespace refract::storage
