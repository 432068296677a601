// SPDX-License-Identifier: Apache-2.0
#include "refract/node/durable/snapshot_restore.h"

#include <fmt/format.h>

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

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
  struct BlockRoom {
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
      BlockRoom& place = places_[index % kPlaces];
      place.block.emplace(reader_.read(*file_, index, place.room));
      const std::lock_guard lock(mutex_);
      read_ = index + 1;
      changed_.notify_all();
    }
    return 0;
  }

  const SnapshotReader& reader_;
  std::unique_ptr<storage::File> file_;
  std::array<BlockRoom, kPlaces> places_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t read_ = 0;    // Blocks that are there.
  uint64_t taken_ = 0;   // The block that is being used.
  uint64_t wanted_ = 0;  // The block to be asked for next.
  bool is_over_ = false;
  std::unique_ptr<runtime::ShardThread> thread_;
};

[[nodiscard]] Reported<> load(StoreFilling& filling, const SnapshotReader::Block& block,
                              const RestoreOptions& options, std::string_view path) {
  if (block.kind == storage::kSnapshotHosted) {
    if (options.on_hosted) return options.on_hosted(block.payload);
    return report(Code::kUnsupported, fmt::format("{} has a block of a store beside the table", path),
                  "start a refractd that hosts it");
  }
  const Code code = filling.load(block);
  if (code == Code::kOk) return {};
  if (code != Code::kNoSpace) return report(code, fmt::format("{} has a block that makes no sense", path));
  return report(code, fmt::format("{} does not fit into the memory of the node", path),
                "give the node a larger memory.limit");
}

}  // namespace

Reported<storage::SnapshotFacts> restore_snapshot(storage::Disk& disk, std::string_view name,
                                                  StoreFilling& filling, const RestoreOptions& options) {
  const auto reader = SnapshotReader::open(disk, name);
  if (!reader) return report(reader.error());
  const SnapshotReader& file = **reader;
  if (options.accepts) {
    if (const Reported<> accepted = options.accepts(file.facts()); !accepted) return report(accepted.error());
  }
  filling.expect(file.facts().entries_max);
  ReadAhead ahead(file);
  if (const Reported<> started = ahead.start(); !started) return report(started.error());
  const std::string path = disk.path_of(name);
  uint64_t bytes = 0;
  for (uint64_t index = 0; index < file.block_count(); ++index) {
    const Reported<SnapshotReader::Block>& block = ahead.next();
    const Reported<> loaded = block ? load(filling, *block, options, path) : report(block.error());
    if (!loaded) return report(loaded.error());
    bytes += block->payload.size();
    if (options.on_progress) options.on_progress(bytes, file.totals().payload_bytes);
  }
  if (!filling.is_complete()) return report(Code::kCorrupt, fmt::format("{} ends within an entry", path));
  return file.facts();
}

}  // namespace refract::node
