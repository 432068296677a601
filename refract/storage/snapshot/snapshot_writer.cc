// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "refract/base/check.h"
#include "refract/base/hash.h"
#include "refract/base/object_bytes.h"
#include "refract/storage/snapshot/snapshot_file.h"

namespace refract::storage {
namespace {

constexpr std::string_view kPrefix = "snapshot-";
constexpr std::string_view kPartSuffix = ".part";
constexpr size_t kShardDigits = 3;
constexpr size_t kStampDigits = 20;

// Over everything in front of the last word, which is the checksum.
template <typename T>
[[nodiscard]] uint64_t checksum_of(const T& value, uint64_t key) noexcept {
  return XXH3_64bits_withSeed(&value, sizeof(value) - sizeof(uint64_t), key);
}

template <typename T>
[[nodiscard]] bool take_number(std::string_view text, T& number) noexcept {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string snapshot_name(uint32_t shard_index, uint64_t stamp) {
  return fmt::format("{}{:03}-{:020}", kPrefix, shard_index, stamp);
}

std::optional<SnapshotName> parse_snapshot_name(std::string_view text) {
  if (text.size() != kPrefix.size() + kShardDigits + 1 + kStampDigits || !text.starts_with(kPrefix))
    return {};
  if (text[kPrefix.size() + kShardDigits] != '-') return {};
  SnapshotName name{.name = std::string(text)};
  const bool has_numbers = take_number(text.substr(kPrefix.size(), kShardDigits), name.shard_index) &&
                           take_number(text.substr(text.size() - kStampDigits), name.stamp);
  return has_numbers ? std::optional(std::move(name)) : std::nullopt;
}

Reported<std::vector<SnapshotName>> list_snapshots(Disk& disk) {
  const auto names = disk.list();
  if (!names) return report(names.error());
  std::vector<SnapshotName> found;
  for (const std::string& text : *names) {
    if (auto name = parse_snapshot_name(text)) found.push_back(*std::move(name));
  }
  return found;
}

Reported<uint64_t> remove_unfinished_snapshots(Disk& disk) {
  const auto names = disk.list();
  if (!names) return report(names.error());
  uint64_t removed = 0;
  for (const std::string& name : *names) {
    if (!name.ends_with(kPartSuffix) ||
        !parse_snapshot_name(std::string_view(name).substr(0, name.size() - kPartSuffix.size()))) {
      continue;
    }
    if (const Reported<> gone = disk.remove(name); !gone) return report(gone.error());
    ++removed;
  }
  return removed;
}

SnapshotWriter::SnapshotWriter(Disk& disk, const SnapshotFacts& facts, const Options& options)
    : disk_(disk),
      options_(options),
      name_(snapshot_name(facts.shard_index, facts.stamp)),
      name_aside_(name_ + std::string(kPartSuffix)) {}

Reported<std::unique_ptr<SnapshotWriter>> SnapshotWriter::create(Disk& disk, const SnapshotFacts& facts,
                                                                 const Options& options) {
  std::unique_ptr<SnapshotWriter> writer(new SnapshotWriter(disk, facts, options));
  if (disk.open(writer->name_, OpenMode::kRead)) {
    return report(Code::kExists, fmt::format("{} is there already", disk.path_of(writer->name_)));
  }
  auto file = disk.open(writer->name_aside_, OpenMode::kCreate);
  if (!file) return report(file.error());
  writer->file_ = std::move(*file);
  SnapshotHeader header{};
  header.magic = kSnapshotMagic;
  header.version = kSnapshotVersion;
  header.shard_index = facts.shard_index;
  header.store = facts.store;
  header.shard_count = facts.shard_count;
  header.copies = facts.copies;
  header.placement = facts.placement;
  header.hash_seed = facts.hash_seed;
  header.stamp = facts.stamp;
  header.wall_ns = facts.wall_ns;
  header.entries_max = facts.entries_max;
  header.log_position = facts.log_position;
  header.checksum = checksum_of(header, 0);
  writer->key_ = header.checksum;
  if (const Reported<> written = writer->file_->write(0, object_bytes(header)); !written)
    return report(written.error());
  return writer;
}

SnapshotWriter::~SnapshotWriter() {
  if (is_finished_ || !file_) return;
  file_.reset();
  // Where even that fails, the next start removes it.
  (void)disk_.remove(name_aside_).has_value();
}

Reported<> SnapshotWriter::write(uint64_t kind, uint32_t entries, std::span<const std::byte> payload) {
  REFRACT_CHECK(!payload.empty() && payload.size() <= kSnapshotPayloadMax);
  SnapshotBlockHeader header{};
  header.magic = kSnapshotBlockMagic;
  header.index = totals_.blocks;
  header.offset = end_;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.entries = entries;
  header.kind = kind;
  header.key = key_;
  header.payload_checksum = XXH3_64bits_withSeed(payload.data(), payload.size(), key_);
  header.checksum = checksum_of(header, key_);
  if (const Reported<> written = file_->write(end_, object_bytes(header)); !written) return written;
  if (const Reported<> written = file_->write(end_ + sizeof(header), payload); !written) return written;
  sum_ = XXH3_64bits_withSeed(&header.checksum, sizeof(header.checksum), sum_);
  ++totals_.blocks;
  totals_.entries += entries;
  totals_.payload_bytes += payload.size();
  end_ = round_up(end_ + sizeof(header) + payload.size(), kSectorBytes);
  return end_ - begun_back_ < options_.writeback_bytes ? Reported<>() : write_back();
}

Reported<> SnapshotWriter::write_back() {
  if (begun_back_ > finished_back_) {
    const uint64_t bytes = begun_back_ - finished_back_;
    if (const Reported<> done = file_->finish_writeback(finished_back_, bytes); !done) return done;
    // This will not be read soon, and the store needs the memory.
    file_->drop_cached(finished_back_, bytes);
    finished_back_ = begun_back_;
  }
  file_->start_writeback(begun_back_, end_ - begun_back_);
  begun_back_ = end_;
  return {};
}

Reported<SnapshotTotals> SnapshotWriter::finish() {
  SnapshotFooter footer{};
  footer.magic = kSnapshotFooterMagic;
  footer.blocks = totals_.blocks;
  footer.entries = totals_.entries;
  footer.payload_bytes = totals_.payload_bytes;
  footer.offset = end_;
  footer.sum = sum_;
  footer.key = key_;
  footer.checksum = checksum_of(footer, key_);
  if (const Reported<> written = file_->write(end_, object_bytes(footer)); !written)
    return report(written.error());
  if (const Reported<> synced = file_->sync(); !synced) return report(synced.error());
  if (const Reported<> named = disk_.rename(name_aside_, name_); !named) return report(named.error());
  is_finished_ = true;
  file_.reset();
  if (const Reported<> synced = disk_.sync_folder(); !synced) return report(synced.error());
  totals_.file_bytes = end_ + sizeof(footer);
  return totals_;
}

}  // namespace refract::storage
