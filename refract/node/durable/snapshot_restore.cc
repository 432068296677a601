// SPDX-License-Identifier: Apache-2.0
#include "refract/node/durable/snapshot_restore.h"

#include <fmt/format.h>

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "refract/kv/owner/snapshot/snapshot_load.h"
#include "refract/runtime/shard_thread.h"

namespace refract::node {
namespace {

using storage::SnapshotReader;

// Reads blocks ahead of the thread that takes them, by a few.
class ReadAhead {
 public:
  explicit ReadAhead(const SnapshotReader& reader) noexcept : reader_(reader) {}
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ~ReadAhead() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
      changed_.notify_all();
    }
    thread_.reset();
  }

  [[nodiscard]] Reported<> start() {
    auto file = reader_.open_file();
    if (!file) return report(file.error());
    file_ = std::move(*file);
    auto thread = runtime::ShardThread::start({.name = "refract-restore", .on_end = [](int) {}},
                                              [this] { return work(); });
    if (!thread) return report(thread.error());
    thread_ = std::move(*thread);
    return {};
  }

  // The next block, until the one after it is asked for.
  [[nodiscard]] const Reported<SnapshotReader::Block>& next() {
    std::unique_lock lock(mutex_);
    taken_ = wanted_++;
    changed_.notify_all();
    changed_.wait(lock, [this] { return read_ > taken_; });
    return *places_[taken_ % kPlaces].block;
  }

 private:
  static constexpr uint64_t kPlaces = 4;
  struct Place {
    std::vector<std::byte> room;
    std::optional<Reported<SnapshotReader::Block>> block;
  };

  int work() noexcept {
    for (uint64_t index = 0; index < reader_.block_count(); ++index) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return is_over_ || index < taken_ + kPlaces; });
        if (is_over_) return 0;
      }
      Place& place = places_[index % kPlaces];
      place.block.emplace(reader_.read(*file_, index, place.room));
      const std::lock_guard lock(mutex_);
      read_ = index + 1;
      changed_.notify_all();
    }
    return 0;
  }

  const SnapshotReader& reader_;
  std::unique_ptr<storage::File> file_;
  std::array<Place, kPlaces> places_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t read_ = 0;    // Blocks that are there.
  uint64_t taken_ = 0;   // The block that is being used.
  uint64_t wanted_ = 0;  // The block to be asked for next.
  bool is_over_ = false;
  std::unique_ptr<runtime::ShardThread> thread_;
};

[[nodiscard]] Reported<> load(kv::SnapshotLoader& loader, const SnapshotReader::Block& block,
                              const RestoreOptions& options, std::string_view path) {
  if (block.kind == static_cast<uint64_t>(kv::SnapshotBlockKind::kHosted)) {
    if (options.on_hosted) return options.on_hosted(block.payload);
    return report(Code::kUnsupported, fmt::format("{} has a block of a store beside the table", path),
                  "start a refractd that hosts it");
  }
  Result<> loaded = loader.load({.kind = static_cast<kv::SnapshotBlockKind>(block.kind),
                                 .entries = block.entries,
                                 .bytes = block.payload});
  while (loaded.code() == Code::kNoSpace) {
    if (!options.more_memory || !options.more_memory()) {
      return report(Code::kNoSpace, fmt::format("{} does not fit into the memory of the node", path),
                    "give the node a larger memory.limit");
    }
    loaded = loader.resume();
  }
  if (loaded) return {};
  return report(loaded.error().code, fmt::format("{} has a block that makes no sense", path));
}

}  // namespace

Reported<Restored> restore_snapshot(storage::Disk& disk, std::string_view name, kv::Replay& replay,
                                    const RestoreOptions& options,
                                    const std::function<Reported<>(const storage::SnapshotFacts&)>& accepts) {
  const auto reader = SnapshotReader::open(disk, name);
  if (!reader) return report(reader.error());
  const SnapshotReader& file = **reader;
  if (accepts) {
    if (const Reported<> accepted = accepts(file.facts()); !accepted) return report(accepted.error());
  }
  Restored restored{.facts = file.facts()};
  const uint64_t entries_max = file.facts().entries_max;
  if (options.before_table) options.before_table(kv::Table::bucket_bytes_for(entries_max));
  replay.expect(entries_max);
  ReadAhead ahead(file);
  if (const Reported<> started = ahead.start(); !started) return report(started.error());
  const auto loader = std::make_unique<kv::SnapshotLoader>(replay);
  const std::string path = disk.path_of(name);
  RestoreProgress progress{.bytes_total = file.totals().payload_bytes};
  for (uint64_t index = 0; index < file.block_count(); ++index) {
    const Reported<SnapshotReader::Block>& block = ahead.next();
    const Reported<> loaded = block ? load(*loader, *block, options, path) : report(block.error());
    if (!loaded) return report(loaded.error());
    progress.entries = loader->entries();
    progress.bytes += block->payload.size();
    if (options.on_progress) options.on_progress(progress);
  }
  if (!loader->is_complete()) return report(Code::kCorrupt, fmt::format("{} ends within an entry", path));
  restored.entries = loader->entries();
  replay.know_stamp(restored.facts.stamp);
  return restored;
}

}  // namespace refract::node
