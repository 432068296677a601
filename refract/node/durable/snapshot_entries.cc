// SPDX-License-Identifier: Apache-2.0
#include "refract/node/durable/snapshot_entries.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "refract/storage/log/log_parts.h"

namespace refract::node {
namespace {

using storage::SnapshotReader;

class EntryReader {
 public:
  EntryReader(const SnapshotReader& file, const SnapshotEntriesOptions& options)
      : file_(file), options_(options), blocks_(std::make_unique<kv::SnapshotBlockReader>()) {
    reading_.facts = file.facts();
    reading_.has_header = file.has_header();
    reading_.file_bytes = file.file_bytes();
    reading_.damages = file.damages();
  }

  [[nodiscard]] Reported<SnapshotReading> run() {
    const auto file = file_.open_file();
    if (!file) return report(file.error());
    for (uint64_t index = 0; index < file_.block_count(); ++index) {
      const auto block = file_.read(**file, index, room_);
      if (block) {
        take(index, *block);
      } else if (block.error().code == Code::kCorrupt) {
        note(index, "its bytes do not match the checksum");
      } else {
        return report(block.error());
      }
      if (options_.on_progress) options_.on_progress(file_.damage_of(index, {}).bytes);
    }
    if (!blocks_->is_complete()) note(file_.block_count() - 1, "the rest of a large entry is missing", 0);
    finish();
    return std::move(reading_);
  }

 private:
  void take(uint64_t index, const SnapshotReader::Block& block) {
    if (block.kind == storage::kSnapshotHosted) {
      ++reading_.hosted_blocks;
      return;
    }
    if (storage::LogParts::concerns(block.kind)) {
      if (options_.on_parts && !options_.on_parts(block.kind, block.payload))
        note(index, "it makes no sense", 0);
      return;
    }
    const kv::SnapshotBlock content{.kind = static_cast<kv::SnapshotBlockKind>(block.kind),
                                    .entries = block.entries,
                                    .bytes = block.payload};
    if (begin_or_drop(content) && hand_out()) return;
    // It was written so, or it is a piece whose beginning is lost.
    blocks_ = std::make_unique<kv::SnapshotBlockReader>();
    note(index, "it has a part of an entry whose other parts are lost");
  }

  // Pieces of an entry that does not go on here are given up, and the block is looked at by itself.
  [[nodiscard]] bool begin_or_drop(const kv::SnapshotBlock& content) {
    if (blocks_->begin(content)) return true;
    blocks_ = std::make_unique<kv::SnapshotBlockReader>();
    return blocks_->begin(content).has_value();
  }

  [[nodiscard]] bool hand_out() {
    kv::SnapshotEntry entry;
    Result<> more = blocks_->next(entry);
    for (; more; more = blocks_->next(entry)) {
      ++reading_.entries;
      if (reading_.first_stamp == 0 || entry.stamp < reading_.first_stamp) reading_.first_stamp = entry.stamp;
      reading_.last_stamp = std::max(reading_.last_stamp, entry.stamp);
      if (options_.on_entry) options_.on_entry(entry);
    }
    return more.error().code == Code::kNotFound;
  }

  void note(uint64_t index, std::string what, std::optional<uint64_t> entries = std::nullopt) {
    SnapshotReader::Damage damage = file_.damage_of(index, std::move(what));
    if (entries) damage.entries = entries;
    reading_.damages.push_back(std::move(damage));
  }

  void finish() {
    std::ranges::sort(reading_.damages, {}, &SnapshotReader::Damage::offset);
    if (const auto wanted = file_.entries_wanted(); wanted && *wanted >= reading_.entries) {
      reading_.lost = *wanted - reading_.entries;
      return;
    }
    for (const SnapshotReader::Damage& damage : reading_.damages) {
      if (!damage.entries) {
        reading_.lost = std::nullopt;
        return;
      }
      *reading_.lost += *damage.entries;
    }
  }

  const SnapshotReader& file_;
  const SnapshotEntriesOptions& options_;
  std::unique_ptr<kv::SnapshotBlockReader> blocks_;
  std::vector<std::byte> room_;
  SnapshotReading reading_;
};

}  // namespace

Reported<SnapshotReading> read_snapshot_entries(storage::Disk& disk, std::string_view name,
                                                const SnapshotEntriesOptions& options) {
  const auto file = SnapshotReader::salvage(disk, name);
  if (!file) return report(file.error());
  return EntryReader(**file, options).run();
}

}  // namespace refract::node
