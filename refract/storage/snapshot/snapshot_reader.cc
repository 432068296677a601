// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "refract/base/hash.h"
#include "refract/storage/snapshot/snapshot_file.h"

namespace refract::storage {
namespace {

template <typename T>
[[nodiscard]] std::span<std::byte> room_of(T& value) noexcept {
  return std::as_writable_bytes(std::span(&value, 1));
}

template <typename T>
[[nodiscard]] bool is_intact(const T& value, uint64_t key) noexcept {
  return XXH3_64bits_withSeed(&value, sizeof(value) - sizeof(uint64_t), key) == value.checksum;
}

[[nodiscard]] bool is_block_at(const SnapshotBlockHeader& header, uint64_t offset, uint64_t key) noexcept {
  return header.magic == kSnapshotBlockMagic && header.offset == offset && header.payload_bytes > 0 &&
         header.payload_bytes <= kSnapshotPayloadMax && is_intact(header, key);
}

// The same where the key is not known yet: the one that it names itself.
[[nodiscard]] bool is_block_at(const SnapshotBlockHeader& header, uint64_t offset) noexcept {
  return header.key != 0 && is_block_at(header, offset, header.key);
}

[[nodiscard]] uint64_t end_of(const SnapshotBlockHeader& header) noexcept {
  return round_up(header.offset + sizeof(header) + header.payload_bytes, kSectorBytes);
}

}  // namespace

std::unexpected<Report> SnapshotReader::damaged(uint64_t offset, std::string_view what) const {
  return report(Code::kCorrupt,
                fmt::format("{} is damaged at byte {}: {}", disk_.path_of(name_), offset, what),
                "use an older snapshot, or see what is left of this one with refract restore --salvage");
}

Reported<std::unique_ptr<SnapshotReader>> SnapshotReader::begin(Disk& disk, std::string_view name,
                                                                bool salvages) {
  std::unique_ptr<SnapshotReader> reader(new SnapshotReader(disk, name));
  reader->salvages_ = salvages;
  auto file = reader->open_file();
  if (!file) return report(file.error());
  Reported<> read = reader->read_header(**file);
  if (!read && salvages && read.error().code != Code::kUnsupported) {
    read = reader->do_without_header(**file, read.error());
  }
  if (!read) return report(read.error());
  if (const Reported<> found = reader->find_blocks(**file); !found) return report(found.error());
  return reader;
}

Reported<std::unique_ptr<SnapshotReader>> SnapshotReader::open(Disk& disk, std::string_view name) {
  return begin(disk, name, false);
}

Reported<std::unique_ptr<SnapshotReader>> SnapshotReader::salvage(Disk& disk, std::string_view name) {
  return begin(disk, name, true);
}

// The key is what the first block says that stands where it says, and that fits its own checksum.
Reported<> SnapshotReader::do_without_header(File& file, const Report& why) {
  const std::optional<SnapshotName> name = parse_snapshot_name(name_);
  for (uint64_t offset = sizeof(SnapshotHeader); offset < file_bytes_ && key_ == 0; offset += kSectorBytes) {
    SnapshotBlockHeader header{};
    const auto got = file.read(offset, room_of(header));
    if (!got) return report(got.error());
    if (*got == sizeof(header) && is_block_at(header, offset)) key_ = header.key;
  }
  if (key_ == 0 || !name) return report(why);
  has_header_ = false;
  facts_ = {.shard_index = name->shard_index, .stamp = name->stamp};
  damages_.push_back({.offset = 0,
                      .bytes = std::min<uint64_t>(sizeof(SnapshotHeader), file_bytes_),
                      .what = "the header is damaged"});
  return {};
}

Reported<> SnapshotReader::read_header(File& file) {
  const auto bytes = file.bytes();
  if (!bytes) return report(bytes.error());
  file_bytes_ = *bytes;
  SnapshotHeader header{};
  const auto got = file.read(0, room_of(header));
  if (!got) return report(got.error());
  if (*got < sizeof(header)) return damaged(*got, "it ends within its header");
  if (!is_intact(header, 0)) {
    if (header.magic == kSnapshotMagic) return damaged(0, "the header's checksum does not match");
    return report(Code::kMalformed,
                  fmt::format("{} is no snapshot, or its header is damaged at byte 0", disk_.path_of(name_)));
  }
  if (header.magic != kSnapshotMagic) {
    return report(Code::kMalformed, fmt::format("{} is no snapshot", disk_.path_of(name_)));
  }
  if (header.version != kSnapshotVersion) {
    return report(Code::kUnsupported,
                  fmt::format("{} has format version {}, this program reads version {}", disk_.path_of(name_),
                              header.version, kSnapshotVersion),
                  "restore it with the release that wrote it");
  }
  facts_ = {.store = header.store,
            .shard_index = header.shard_index,
            .shard_count = header.shard_count,
            .copies = header.copies,
            .placement = header.placement,
            .hash_seed = header.hash_seed,
            .stamp = header.stamp,
            .wall_ns = header.wall_ns,
            .entries_max = header.entries_max,
            .log_position = header.log_position};
  key_ = header.checksum;
  return {};
}

Reported<> SnapshotReader::find_blocks(File& file) {
  uint64_t offset = sizeof(SnapshotHeader);
  while (true) {
    SnapshotBlockHeader header{};
    const auto got = file.read(offset, room_of(header));
    if (!got) return report(got.error());
    const bool is_whole = *got == sizeof(header);
    if (is_whole && header.magic == kSnapshotFooterMagic) {
      SnapshotFooter footer{};
      std::memcpy(&footer, &header, sizeof(footer));
      Reported<> checked = check_footer(footer, offset);
      if (is_intact(footer, key_)) entries_wanted_ = footer.entries;
      if (!checked && salvages_) {
        // One that counts what was not found says nothing that is not said of those.
        const bool counts =
            is_intact(footer, key_) && offset + sizeof(footer) == file_bytes_ && !damages_.empty();
        if (!counts) {
          damages_.push_back(
              {.offset = offset, .bytes = file_bytes_ - offset, .what = "the footer does not fit the file"});
        }
        return {};
      }
      totals_.file_bytes = file_bytes_;
      return checked;
    }
    const bool is_block = is_whole && is_block_at(header, offset, key_) && end_of(header) <= file_bytes_;
    if (is_block && (salvages_ || header.index == blocks_.size())) {
      blocks_.push_back(header);
      ++totals_.blocks;
      totals_.entries += header.entries;
      totals_.payload_bytes += header.payload_bytes;
      sum_ = XXH3_64bits_withSeed(&header.checksum, sizeof(header.checksum), sum_);
      offset = end_of(header);
      continue;
    }
    if (!salvages_) {
      return damaged(
          offset, is_whole ? fmt::format("the header of block {} does not match its checksum", blocks_.size())
                           : "it ends here, before its footer");
    }
    if (const Reported<> found = find_next(file, offset, describe(header, offset)); !found) return found;
    if (offset >= file_bytes_) return {};
  }
}

// What is the matter at `offset`, where there is no block and no footer.
SnapshotReader::Damage SnapshotReader::describe(const SnapshotBlockHeader& header, uint64_t offset) const {
  if (offset >= file_bytes_) {
    return {.offset = offset, .what = "it ends here, before its footer", .entries = std::nullopt};
  }
  if (file_bytes_ - offset == sizeof(SnapshotFooter) && !is_block_at(header, offset, key_))
    return {.offset = offset, .what = "the footer is damaged"};
  if (is_block_at(header, offset, key_)) {
    return {.offset = offset,
            .what = fmt::format("block {} is cut short", header.index),
            .entries = header.entries};
  }
  return {.offset = offset,
          .what = fmt::format("the header of block {} is damaged", blocks_.size()),
          .entries = std::nullopt};
}

// The next place at which a block or the footer stands; the end of the file where there is none.
Reported<> SnapshotReader::find_next(File& file, uint64_t& offset, Damage damage) {
  for (offset = round_up(offset + 1, kSectorBytes); offset < file_bytes_; offset += kSectorBytes) {
    SnapshotBlockHeader header{};
    const auto got = file.read(offset, room_of(header));
    if (!got) return report(got.error());
    if (*got < sizeof(header)) continue;
    if (is_block_at(header, offset, key_) && end_of(header) <= file_bytes_) break;
    if (header.magic == kSnapshotFooterMagic && is_intact(header, key_)) break;
  }
  offset = std::max(damage.offset, std::min(offset, file_bytes_));
  damage.bytes = offset - damage.offset;
  damages_.push_back(std::move(damage));
  return {};
}

Reported<> SnapshotReader::check_footer(const SnapshotFooter& footer, uint64_t offset) const {
  if (!is_intact(footer, key_)) return damaged(offset, "the footer's checksum does not match");
  if (footer.offset != offset || offset + sizeof(footer) != file_bytes_)
    return damaged(offset, "the footer does not stand at the end of the file");
  const bool is_total = footer.blocks == blocks_.size() && footer.entries == totals_.entries &&
                        footer.payload_bytes == totals_.payload_bytes && footer.sum == sum_;
  return is_total ? Reported<>() : damaged(offset, "the footer counts other blocks than there are");
}

SnapshotReader::Damage SnapshotReader::damage_of(uint64_t index, std::string what) const {
  const SnapshotBlockHeader& header = blocks_[index];
  return {.offset = header.offset,
          .bytes = end_of(header) - header.offset,
          .what = std::move(what),
          .entries = header.entries};
}

Reported<SnapshotReader::Block> SnapshotReader::read(File& file, uint64_t index,
                                                     std::vector<std::byte>& room) const {
  const SnapshotBlockHeader& header = blocks_[index];
  // With the zero bytes behind it, which no checksum covers.
  const uint64_t bytes = end_of(header) - header.offset - sizeof(header);
  room.resize(std::max<uint64_t>(room.size(), bytes));
  const std::span<std::byte> all = std::span(room).first(bytes);
  const auto got = file.read(header.offset + sizeof(header), all);
  if (!got) return report(got.error());
  const std::span<const std::byte> payload = all.first(header.payload_bytes);
  if (*got < bytes) return damaged(header.offset, fmt::format("block {} is cut short", index));
  if (XXH3_64bits_withSeed(payload.data(), payload.size(), key_) != header.payload_checksum) {
    return damaged(header.offset, fmt::format("the {} bytes of block {} do not match their checksum",
                                              payload.size(), index));
  }
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  if (!std::ranges::all_of(all.subspan(payload.size()), is_zero))
    return damaged(header.offset + sizeof(header) + payload.size(), "the bytes behind a block are not zero");
  return Block{.kind = header.kind, .entries = header.entries, .payload = payload};
}

Reported<> SnapshotReader::verify() const {
  auto file = open_file();
  if (!file) return report(file.error());
  std::vector<std::byte> room;
  for (uint64_t index = 0; index < block_count(); ++index) {
    if (const auto block = read(**file, index, room); !block) return report(block.error());
  }
  return {};
}

}  // namespace refract::storage
