// SPDX-License-Identifier: Apache-2.0
// What a shard keeps on disk, as its server uses it: fills the shard's memory from there when the memory is
// new, tells the log of each change, and the service how far the log has got.
//
//   auto storage = ShardStorage::open({...});
//   storage->host(name, store), for each row;
//   if (storage->is_memory_new()) storage->fill(heap, growth);
//   else                          { storage->go_on(heap); recover with storage->last_record(); }
//   the stores begin logging;
//   storage->start(on_progress);
//
// docs/design/025-log.md says what may be acknowledged when.
//
// Threads: the shard's; value_of() is called by the log's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/report.h"
#include "refract/memory/heap.h"
#include "refract/memory/writer.h"
#include "refract/node/config/config.h"
#include "refract/node/durable/hosted_keeping.h"
#include "refract/node/durable/shard_snapshots.h"
#include "refract/node/space/store_space.h"
#include "refract/runtime/shard.h"
#include "refract/storage/disk.h"
#include "refract/storage/log/shard_log.h"

namespace refract::node {

class FillTogether;
class LogStands;

class ShardStorage final : public HostedLog, public storage::ValueSource, public runtime::Poller {
 public:
  // All outlive the storage.
  struct Parts {
    const NodeConfig& config;
    storage::Disk& disk;
    storage::LogId log;
    const storage::RingFile& ring;
    StoreSpace& space;
    Writer& writer;
    runtime::Shard& shard;
    ValueOf value_of;                  // Of the first row.
    std::string name;                  // For the log: "shard 2: ", nothing where there is only one.
    FillTogether* together = nullptr;  // The shards of the node, where they are filled; null: there is one.
    LogStands* stands = nullptr;       // Of those, while they serve; likewise.
  };
  // Before the space's heap is made: where a server died while it filled the memory, the space is emptied.
  [[nodiscard]] static Reported<std::unique_ptr<ShardStorage>> open(Parts parts);
  ShardStorage(const ShardStorage&) = delete;
  ShardStorage& operator=(const ShardStorage&) = delete;
  ~ShardStorage() override;

  // The keeper made the memory, and no server has filled it to the end.
  [[nodiscard]] bool is_memory_new() const noexcept;

  struct Growth {
    Grow now;
    std::function<void(uint64_t)> ahead;  // So many bytes are still to come; does not wait.
  };
  // In the order of the rows, before anything else is called. The stores outlive the storage, and so does the
  // heap.
  void host(StoreName name, HostedStore& store) { hosted_.add(name, store); }
  // Puts everything that the disk has into the stores, which are empty. kCorrupt: what the disk has is
  // damaged, and the sentences say where; nothing may be served then.
  [[nodiscard]] Reported<> fill(Heap& heap, const Growth& growth);
  // What fill() read of the log.
  [[nodiscard]] const storage::LogReading& reading() const noexcept { return reading_; }

  // The memory is as the last server left it; waits for the other shards, as fill() does. Before the stores
  // take it up. Where the ring is lost or damaged, the memory has everything: writes are refused until a
  // snapshot has it, too.
  [[nodiscard]] Reported<> go_on(Heap& heap);
  // The last that was appended, which the memory may lack. Nothing: none is known.
  [[nodiscard]] std::optional<storage::Record> last_record() const noexcept { return log_->last_record(); }

  // From now on waiting calls are told when the log has got on, or has failed, and snapshots are written.
  // `on_progress` returns how much there was to do.
  [[nodiscard]] Reported<> start(std::function<size_t()> on_progress);
  // REQUIRES, for both: start().
  [[nodiscard]] const ShardSnapshots& snapshots() const noexcept { return *snapshots_; }
  [[nodiscard]] ShardSnapshots& snapshots() noexcept { return *snapshots_; }

  [[nodiscard]] const storage::ShardLog& log() const noexcept { return *log_; }
  [[nodiscard]] const storage::RingFile& ring() const noexcept { return parts_.ring; }

  [[nodiscard]] Code room_for(uint64_t key_bytes, uint64_t value_bytes) const noexcept override;
  void append(const kv::ChangeLog::Change& change) noexcept override;
  [[nodiscard]] Code room_for_group(uint64_t changes, uint64_t bytes) const noexcept override;
  void append_group(uint64_t number, std::span<const kv::ChangeLog::Change> changes) noexcept override;
  void append_prepared(const kv::TransactionName& name, uint64_t number,
                       std::span<const kv::ChangeLog::Change> changes) noexcept override;
  void append_decided(const kv::TransactionName& name, uint64_t number,
                      std::span<const kv::ChangeLog::Change> changes) noexcept override;
  void append_settled(const kv::TransactionName& name, uint64_t stamp, bool has_happened) noexcept override;
  void append_hosted(const HostedChange& change) noexcept override;
  [[nodiscard]] uint64_t appended() const noexcept override { return log_->appended(); }
  [[nodiscard]] uint64_t confirmed() const noexcept override { return log_->confirmed(); }
  [[nodiscard]] Code failure() const noexcept override;
  [[nodiscard]] uint64_t needed_until(Offset buffer) const noexcept override {
    return log_->needed_until(buffer.value);
  }

  [[nodiscard]] std::optional<std::span<const std::byte>> value_of(
      const storage::Record& record) noexcept override;

  size_t poll() noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  [[nodiscard]] std::string_view name() const noexcept override { return "log"; }

 private:
  explicit ShardStorage(Parts parts) noexcept : parts_(std::move(parts)) {}
  [[nodiscard]] Reported<std::unique_ptr<storage::ShardLog>> open_log(bool empties_ring);
  [[nodiscard]] Reported<> begin_behind(Heap& heap);
  void append_as(const storage::GroupRole& role, uint64_t number,
                 std::span<const kv::ChangeLog::Change> changes) noexcept;
  [[nodiscard]] Reported<> take_up_ring(Heap& heap);
  [[nodiscard]] Reported<> tell_settled(const std::vector<storage::LogParts::Settled>& settled, Heap& heap,
                                        bool is_anything_open);
  void set_fill_state(uint64_t state) noexcept;
  void note_appended() noexcept;
  void note_state() noexcept;

  Parts parts_;
  std::unique_ptr<storage::ShardLog> log_;
  Heap* heap_ = nullptr;  // Since fill() or go_on().
  HostedKeeping hosted_;
  std::function<size_t()> on_progress_;  // Empty: not started.
  storage::LogReading reading_;
  std::optional<ShardSnapshots> snapshots_;
  uint64_t rung_at_ = 0;  // What had been appended when the log's thread last heard of it.
  storage::ShardLog::Progress told_ = {};
};

// Of a node that has a log.
[[nodiscard]] storage::Durability log_durability(const NodeConfig& config) noexcept;

// When no server will follow: brings what its ring still has to the disk. `space` is the shard's memory,
// where large values lie.
struct SettleParts {
  const NodeConfig& config;
  storage::Disk& disk;
  storage::LogId log;
  const storage::RingFile& ring;
  std::byte* space;
  ValueOf value_of;
};
[[nodiscard]] Reported<> settle_log(const SettleParts& parts);

}  // namespace refract::node
