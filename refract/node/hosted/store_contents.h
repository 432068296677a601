// SPDX-License-Identifier: Apache-2.0
// How a disk keeps the first row of a node's stores, whose records and blocks bear no name: its contents may
// be too large to be copied in one turn of the shard (docs/design/046-hosted-stores.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "refract/base/check.h"
#include "refract/base/clock.h"
#include "refract/base/result.h"
#include "refract/kv/owner/ports.h"
#include "refract/storage/log/log_parts.h"
#include "refract/storage/log/shard_log.h"
#include "refract/storage/record.h"
#include "refract/storage/snapshot/snapshot_file.h"

namespace refract::node {

// Gets the heap room for a value of so many bytes; false: there is none.
using Grow = std::function<bool(uint64_t bytes)>;

// Puts a snapshot's blocks, then the log's records behind it, into the store, which is empty.
//
// Threads: the shard's.
class StoreFilling {
 public:
  virtual ~StoreFilling() = default;

  // Before the first block: at most so many entries come.
  virtual void expect(uint64_t entries) = 0;
  // In their order. kNoSpace: the memory does not become larger. Another code: the block makes no sense.
  [[nodiscard]] virtual Code load(const storage::SnapshotReader::Block& block) = 0;
  // False where pieces of a large entry are missing behind the last block.
  [[nodiscard]] virtual bool is_complete() const noexcept = 0;

  // May keep the change back until flush(), which says kNoSpace if the memory was too small for any. Of
  // transactions over several shards, too (storage::LogParts).
  virtual void replay(const storage::Record& change) = 0;
  [[nodiscard]] virtual Code flush() = 0;
  // What this shard's files say has been decided; and ends what they leave open by what all shards' files do.
  // Before the last flush().
  [[nodiscard]] virtual const storage::DecidedNumbers& decided() const noexcept = 0;
  [[nodiscard]] virtual bool has_open() const noexcept = 0;
  [[nodiscard]] virtual std::vector<storage::LogParts::Settled> settle(
      const storage::DecidedNumbers& of_all_shards) = 0;
  [[nodiscard]] virtual uint64_t entries() const noexcept = 0;
  // Behind all that. Returns the lowest stamp that a new change can have: far above all of these, and above
  // `known_stamp`.
  virtual uint64_t finish(uint64_t known_stamp) = 0;
};

// The store at one moment, while the shard changes it.
//
// Threads: made, polled and destroyed by the shard; run() by one at a time; all else by any.
class StoreSnapshot {
 public:
  struct Options {
    const Clock& clock;
    std::function<Code(const storage::SnapshotReader::Block&)> write;
    uint64_t bytes_per_second = 0;          // 0: as fast as it goes.
    std::function<void(uint64_t ns)> wait;  // Of the thread that runs; needed with a pace.
  };
  struct Progress {
    uint64_t entries = 0;
    uint64_t bytes = 0;
  };
  // REQUIRES: run() has ended, and poll() is false.
  virtual ~StoreSnapshot() = default;

  // Of the file, but for its store.
  [[nodiscard]] virtual storage::SnapshotFacts facts() const noexcept = 0;
  // Gives back some of what has been read; false: nothing is kept any more.
  virtual bool poll() noexcept = 0;
  // kOk: everything was written. Else what write() said, or code(). With `is_relieved` it yields its CPU now
  // and then, and returns nothing once that is true; another call continues from there.
  [[nodiscard]] virtual std::optional<Code> run(const std::atomic<bool>* is_relieved) = 0;
  [[nodiscard]] virtual Progress progress() const noexcept = 0;
  // Whether so much is kept that a reader that is slow on purpose should hurry.
  [[nodiscard]] virtual bool is_urgent() const noexcept = 0;
  // kOk while the moment is kept; else why it is not.
  [[nodiscard]] virtual Code code() const noexcept = 0;
  virtual void give_up(Code code) noexcept = 0;
};

// The change of a record that bears no name; its spans are the record's.
[[nodiscard]] inline kv::ChangeLog::Change change_of(const storage::Record& record) noexcept {
  using kv::ChangeLog;
  const bool is_mark = record.kind == storage::RecordKind::kMark;
  const bool is_put = record.kind == storage::RecordKind::kPut;
  REFRACT_DCHECK(is_mark || is_put || record.kind == storage::RecordKind::kErase);
  return {.kind = is_mark  ? ChangeLog::Kind::kMark
                  : is_put ? ChangeLog::Kind::kPut
                           : ChangeLog::Kind::kErase,
          .stamp = record.stamp,
          .expires_wall_ns = record.expires_wall_ns,
          .request = {.client = record.client, .sequence = record.sequence},
          .key = record.key,
          .value = record.value,
          .buffer = {record.reference}};
}
// The other way, for the log, with each put; its spans are the change's.
[[nodiscard]] inline storage::ShardLog::Change log_change_of(const kv::ChangeLog::Change& change) noexcept {
  const bool is_put = change.kind == kv::ChangeLog::Kind::kPut;
  return {.kind = is_put ? storage::RecordKind::kPut : storage::RecordKind::kErase,
          .stamp = change.stamp,
          .expires_wall_ns = change.expires_wall_ns,
          .client = change.request.client,
          .sequence = change.request.sequence,
          .key = change.key,
          .value = change.value,
          .buffer = change.buffer.value};
}

// ... and for a group.
[[nodiscard]] inline storage::Record record_of(const kv::ChangeLog::Change& change) noexcept {
  const storage::ShardLog::Change one = log_change_of(change);
  const bool is_mark = change.kind == kv::ChangeLog::Kind::kMark;
  return {.kind = is_mark ? storage::RecordKind::kMark : one.kind,
          .stamp = one.stamp,
          .expires_wall_ns = one.expires_wall_ns,
          .client = one.client,
          .sequence = one.sequence,
          .key = one.key,
          .value = one.value,
          .value_bytes = one.value.size()};
}

}  // namespace refract::node
