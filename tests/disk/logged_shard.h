// SPDX-License-Identifier: Apache-2.0
// A shard with a log and snapshots on a Disk, as a node has them (with their threads, on files that are
// small), changed at random; and what a recovery from such a disk must find.
//
// Threads: one; the log's and the snapshot's are inside.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/prng.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/testing/test_snapshot.h"
#include "refract/node/durable/snapshot_job.h"
#include "refract/storage/log/shard_log.h"

namespace refract::test {

inline constexpr uint32_t kLoggedShards = 2;
inline constexpr uint64_t kLoggedKeys = 60;
inline constexpr storage::StoreId kLoggedStore{std::byte{0x2a}};

// What one change left: the key's entry, or nothing. In the order of the log. Those of a batch have one end.
struct MadeChange {
  std::string key;
  std::optional<kv::test::ModelEntry> entry;
  uint64_t end = 0;  // Position in the log.
};

// How the files of a shard's log are made here: small, so that many are begun, left and used again.
[[nodiscard]] storage::ShardLogSpec log_spec(storage::Disk& disk, uint32_t shard,
                                             storage::Durability durability, storage::ValueSource* values);

class LoggedShard final : public kv::ChangeLog, public storage::ValueSource {
 public:
  // The disk outlives it. Some values are so large that the log reads them where they lie.
  LoggedShard(storage::Disk& disk, uint32_t shard, storage::Durability durability, uint64_t seed);
  LoggedShard(const LoggedShard&) = delete;
  LoggedShard& operator=(const LoggedShard&) = delete;
  ~LoggedShard() override;

  // Makes the shard's table again from what the disk has, empty if it has nothing, and begins the log behind
  // it. Whatever is wrong with the disk's content is an error.
  [[nodiscard]] Reported<> recover();
  // REQUIRES: recover(). With the log's thread, or without, for a log that is stepped by hand.
  [[nodiscard]] Reported<> start();

  // One change, when the log has room; now and then a batch of some.
  void change();
  // Begins a snapshot, unless one is under way; continues it. Once one is there, the log drops what it
  // has.
  void begin_snapshot();
  void poll();
  [[nodiscard]] bool is_writing_snapshot() const noexcept { return job_ != nullptr; }
  [[nodiscard]] uint64_t snapshots() const noexcept { return snapshots_; }
  // Everything that was changed is on the disk. REQUIRES: not start()ed.
  [[nodiscard]] bool drain() { return log_->drain(); }

  [[nodiscard]] const std::vector<MadeChange>& changes() const noexcept { return changes_; }
  // What the table holds.
  [[nodiscard]] kv::test::Model content();
  [[nodiscard]] storage::ShardLog& log() noexcept { return *log_; }
  [[nodiscard]] uint64_t next_stamp() { return space_.heap().next_stamp(); }

  [[nodiscard]] Code room_for(uint64_t key_bytes, uint64_t value_bytes) const noexcept override;
  void append(const Change& change) noexcept override;
  [[nodiscard]] Code room_for_group(uint64_t changes, uint64_t bytes) const noexcept override;
  void append_group(uint64_t number, std::span<const Change> changes) noexcept override;
  [[nodiscard]] uint64_t appended() const noexcept override { return log_->appended(); }
  [[nodiscard]] uint64_t confirmed() const noexcept override { return log_->confirmed(); }
  [[nodiscard]] Code failure() const noexcept override { return Code::kIndeterminate; }
  [[nodiscard]] uint64_t needed_until(Offset buffer) const noexcept override {
    return log_->needed_until(buffer.value);
  }
  [[nodiscard]] std::optional<std::span<const std::byte>> value_of(
      const storage::Record& record) noexcept override;

 private:
  [[nodiscard]] kv::test::ModelEntry some_entry();
  void change_some();

  storage::Disk& disk_;
  uint32_t shard_;
  storage::Durability durability_;
  Prng prng_;
  kv::test::Space space_;
  std::unique_ptr<storage::ShardLog> log_;
  std::unique_ptr<node::SnapshotJob> job_;
  std::vector<MadeChange> changes_;
  uint64_t sequence_ = 0;
  uint64_t snapshots_ = 0;
};

}  // namespace refract::test
