// SPDX-License-Identifier: Apache-2.0
// The table's contents on their way from a disk and to one.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "refract/base/units.h"
#include "refract/kv/direct/mapped_memory.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/owner/snapshot/snapshot_feed.h"
#include "refract/kv/owner/snapshot/snapshot_load.h"
#include "refract/kv/owner/snapshot/snapshot_run.h"
#include "refract/kv/owner/table/replay.h"
#include "refract/kv/owner/table/table.h"
#include "refract/memory/heap.h"
#include "refract/memory/writer.h"
#include "refract/node/hosted/store_contents.h"

namespace refract::node {

// Collects changes, so that their cache misses overlap, and applies them in their order.
class KvFilling final : public StoreFilling {
 public:
  // All outlive it.
  // `parts`: of the table; null: it takes no transactions over shards.
  KvFilling(kv::Table& table, Heap& heap, const Grow& grow, kv::Table::Parts* parts = nullptr);
  KvFilling(const KvFilling&) = delete;
  KvFilling& operator=(const KvFilling&) = delete;
  ~KvFilling() override = default;

  void expect(uint64_t entries) override;
  [[nodiscard]] Code load(const storage::SnapshotReader::Block& block) override;
  [[nodiscard]] bool is_complete() const noexcept override {
    return loader_->is_complete() && parts_.is_complete();
  }
  void replay(const storage::Record& change) override;
  [[nodiscard]] const storage::DecidedNumbers& decided() const noexcept override { return parts_.decided(); }
  [[nodiscard]] bool has_open() const noexcept override { return parts_.has_open(); }
  [[nodiscard]] std::vector<storage::LogParts::Settled> settle(
      const storage::DecidedNumbers& of_all_shards) override;
  [[nodiscard]] Code flush() override;
  [[nodiscard]] uint64_t entries() const noexcept override { return table_.stats().entries; }
  uint64_t finish(uint64_t known_stamp) override;

 private:
  void replay_change(const storage::Record& change);
  [[nodiscard]] bool more_memory();
  [[nodiscard]] Code restore_open();
  [[nodiscard]] Code restore_part(const storage::LogParts::Name& name, const storage::LogParts::Open& open);
  [[nodiscard]] std::span<const std::byte> keep(std::span<const std::byte> bytes);
  void apply(std::span<const kv::ChangeLog::Change> changes);

  kv::Table& table_;
  Heap& heap_;
  const Grow& grow_;
  kv::Table::Parts* const transaction_parts_;
  bool is_settled_ = false;
  kv::Replay replay_;
  std::unique_ptr<kv::SnapshotLoader> loader_;
  storage::LogParts parts_;
  uint64_t wanted_ = kMiB;  // When the memory was too small for a block.
  uint64_t changes_before_ = 0;
  std::vector<kv::ChangeLog::Change> changes_;
  std::vector<std::byte> bytes_;
  bool full_ = false;
};

class KvSnapshot final : public StoreSnapshot, private kv::SnapshotSink {
 public:
  // `clock`: by which entries expire. All outlive it. REQUIRES: the table has no other snapshot under way.
  struct Parts {
    kv::Table& table;
    Heap& heap;
    Writer& writer;
    const Clock& clock;
    // Of transactions over several shards: what others may have to learn from it, and what is prepared here.
    storage::DecidedNumbers decided = {};
    const kv::Table::Parts* prepared = nullptr;
  };
  KvSnapshot(const Parts& parts, Options options);

  [[nodiscard]] storage::SnapshotFacts facts() const noexcept override;
  bool poll() noexcept override { return feed_.poll(); }
  [[nodiscard]] std::optional<Code> run(const std::atomic<bool>* is_relieved) override;
  [[nodiscard]] Progress progress() const noexcept override;
  [[nodiscard]] bool is_urgent() const noexcept override { return feed_.is_urgent(); }
  [[nodiscard]] Code code() const noexcept override { return feed_.code(); }
  void give_up(Code code) noexcept override { feed_.give_up(code); }

 private:
  [[nodiscard]] Code write(const kv::SnapshotBlock& block) override;

  const Options options_;
  struct PartsBlock {
    uint64_t kind = 0;
    std::vector<std::byte> payload;
  };
  static std::deque<PartsBlock> blocks_of(const Parts& parts);
  static kv::SnapshotFeed::Options feed_options(const Parts& parts);

  std::deque<PartsBlock> of_parts_;  // Those that are not written yet.
  kv::SnapshotFeed feed_;
  kv::MappedMemory memory_;
  kv::SnapshotRun run_;
};

// A large value in its buffer, which has it as long as it has the record's stamp.
[[nodiscard]] std::optional<std::span<const std::byte>> value_in_table(
    const Writer& writer, const storage::Record& record) noexcept;

}  // namespace refract::node
