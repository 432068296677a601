// SPDX-License-Identifier: Apache-2.0
#include "refract/storage/log/segment.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "refract/base/hash.h"
#include "refract/base/units.h"

namespace refract::storage {
namespace {

[[nodiscard]] uint64_t checksum_of(const SegmentHeader& header) noexcept {
  return XXH3_64bits(&header, offsetof(SegmentHeader, checksum));
}

// The number behind `prefix`, when nothing else stands there.
[[nodiscard]] std::optional<uint64_t> number_behind(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number, 16);
  if (error != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return number;
}

[[nodiscard]] std::string segment_prefix(uint32_t shard) {
  return fmt::format("log-{:03}-", shard);
}
[[nodiscard]] std::string spare_prefix(uint32_t shard) {
  return fmt::format("spare-{:03}-", shard);
}

}  // namespace

std::string segment_name(uint32_t shard, uint64_t first_position) {
  return fmt::format("{}{:016x}", segment_prefix(shard), first_position);
}

std::string spare_name(uint32_t shard, uint64_t number) {
  return fmt::format("{}{:x}", spare_prefix(shard), number);
}

std::optional<uint32_t> shard_of_segment(std::string_view name) {
  constexpr std::string_view kPrefix = "log-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits =
      name.substr(kPrefix.size(), name.find('-', kPrefix.size()) - kPrefix.size());
  uint32_t shard = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), shard);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return number_behind(name, segment_prefix(shard)) ? std::optional(shard) : std::nullopt;
}

SegmentHeader make_segment_header(const LogId& log, const Segment& segment) noexcept {
  SegmentHeader header = {};
  header.magic = kSegmentMagic;
  header.version = kSegmentVersion;
  header.shard = log.shard;
  header.store = log.store;
  header.first_position = segment.first_position;
  header.previous_end = segment.previous_end;
  header.first_stamp = segment.first_stamp;
  header.begins_again = segment.begins_again ? 1 : 0;
  header.behind_stamp = segment.behind_stamp;
  header.file_bytes = segment.file_bytes;
  header.hash_seed = log.hash_seed;
  header.shard_count = log.shard_count;
  header.copies = log.copies;
  header.placement = log.placement;
  header.is_cut = segment.is_cut ? 1 : 0;
  header.checksum = checksum_of(header);
  return header;
}

Reported<Segment> read_segment_header(Disk& disk, const LogId& log, const std::string& name) {
  Segment segment;
  segment.name = name;
  segment.first_position = std::min(number_behind(name, segment_prefix(log.shard)).value_or(0), kPositionMax);
  const Reported<std::unique_ptr<File>> file = disk.open(name, OpenMode::kRead);
  if (!file) return report(file.error());
  const Reported<uint64_t> bytes = (*file)->bytes();
  if (!bytes) return report(bytes.error());
  segment.file_bytes = *bytes;
  SegmentHeader header = {};
  const Reported<uint64_t> read = (*file)->read(0, std::as_writable_bytes(std::span(&header, 1)));
  if (!read) return report(read.error());
  if (*read == sizeof(header) && header.magic == kSegmentMagic && header.version != kSegmentVersion &&
      checksum_of(header) == header.checksum) {
    return report(Code::kUnsupported,
                  fmt::format("{} has version {} of the log; this program knows {}", disk.path_of(name),
                              header.version, kSegmentVersion),
                  "use the program that wrote it, or restore a snapshot");
  }
  if (*read != sizeof(header) || header.magic != kSegmentMagic || checksum_of(header) != header.checksum ||
      header.first_position > kPositionMax || header.previous_end > kPositionMax) {
    segment.damage = "its header is damaged";
    segment.damage_bytes = kSegmentHeaderBytes;
    return segment;
  }
  segment.is_foreign = header.store != log.store || header.shard != log.shard;
  if (segment.is_foreign) {
    segment.damage = "it belongs to another store or shard";
    segment.damage_bytes = segment.file_bytes;
    return segment;
  }
  if (header.first_position != segment.first_position) {
    segment.damage =
        fmt::format("it is the file {}, under another name", segment_name(log.shard, header.first_position));
  }
  if (header.file_bytes > segment.file_bytes) {
    segment.damage =
        fmt::format("it was cut: {} bytes are there of {}", segment.file_bytes, header.file_bytes);
    segment.damage_offset = segment.file_bytes;
    segment.damage_bytes = header.file_bytes - segment.file_bytes;
  }
  segment.has_header = true;
  segment.first_position = header.first_position;
  segment.previous_end = header.previous_end;
  segment.first_stamp = header.first_stamp;
  segment.begins_again = header.begins_again != 0;
  segment.is_cut = header.is_cut != 0;
  segment.behind_stamp = header.behind_stamp;
  return segment;
}

Reported<std::optional<LogId>> log_id_in(Disk& disk, const std::string& name) {
  const Reported<std::unique_ptr<File>> file = disk.open(name, OpenMode::kRead);
  if (!file) return report(file.error());
  SegmentHeader header = {};
  const Reported<uint64_t> read = (*file)->read(0, std::as_writable_bytes(std::span(&header, 1)));
  if (!read) return report(read.error());
  if (*read != sizeof(header) || header.magic != kSegmentMagic || header.version != kSegmentVersion ||
      checksum_of(header) != header.checksum) {
    return std::nullopt;
  }
  return LogId{.store = header.store,
               .shard = header.shard,
               .shard_count = static_cast<uint32_t>(header.shard_count),
               .copies = static_cast<uint32_t>(header.copies),
               .placement = header.placement,
               .hash_seed = header.hash_seed};
}

Reported<LogFiles> find_log_files(Disk& disk, const LogId& log) {
  const Reported<std::vector<std::string>> names = disk.list();
  if (!names) return report(names.error());
  LogFiles files;
  for (const std::string& name : *names) {
    if (number_behind(name, spare_prefix(log.shard))) files.spares.push_back(name);
    if (!number_behind(name, segment_prefix(log.shard))) continue;
    Reported<Segment> segment = read_segment_header(disk, log, name);
    if (!segment) return report(segment.error());
    files.segments.push_back(*std::move(segment));
  }
  std::ranges::sort(files.segments, {}, [](const Segment& segment) {
    return std::pair(segment.first_position, !segment.damage.empty());
  });
  const auto newest = std::ranges::find_if(
      files.segments.rbegin(), files.segments.rend(),
      [](const Segment& segment) { return segment.begins_again && segment.damage.empty(); });
  if (newest != files.segments.rend()) {
    for (auto before = files.segments.begin(); before != newest.base() - 1; ++before) {
      files.outdated.push_back(before->name);
    }
    files.segments.erase(files.segments.begin(), newest.base() - 1);
  }
  return files;
}

uint64_t fresh_position(const LogFiles& files) noexcept {
  uint64_t position = kFirstPosition;
  for (const Segment& segment : files.segments) {
    position = std::max(position, round_up(segment.end_max(), kRecordUnit));
  }
  return position;
}

}  // namespace refract::storage
