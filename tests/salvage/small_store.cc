// SPDX-License-Identifier: Apache-2.0
#include "tests/salvage/small_store.h"

#include <algorithm>
#include <cstring>

#include "refract/base/check.h"
#include "refract/base/clock.h"
#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/kv/layout/layout.h"
#include "refract/kv/owner/snapshot/snapshot_block.h"
#include "refract/storage/group.h"
#include "refract/storage/log/shard_log.h"

namespace refract::salvage {
namespace {

using storage::LogId;
using storage::Record;

constexpr uint64_t kStamps = 80;
constexpr size_t kEntriesABlock = 4;
constexpr uint64_t kExpires_ns = uint64_t{2'000'000'000} * kSecond_ns;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// As the table's buffers have it (docs/formats/snapshot.md).
void append_entry(std::vector<std::byte>& to, const std::string& key, const Version& version) {
  const kv::Lengths lengths{.value_bytes = static_cast<uint32_t>(version.value.size()),
                            .key_bytes = static_cast<uint16_t>(key.size()),
                            .flags = version.expires_wall_ns == 0 ? uint16_t{0} : kv::Lengths::kExpires};
  const auto append = [&](const void* bytes, size_t count) {
    const auto* const begin = static_cast<const std::byte*>(bytes);
    to.insert(to.end(), begin, begin + count);
  };
  const uint64_t word = lengths.word();
  append(&version.stamp, sizeof(version.stamp));
  append(&word, sizeof(word));
  if (version.expires_wall_ns != 0) append(&version.expires_wall_ns, sizeof(version.expires_wall_ns));
  append(key.data(), key.size());
  append(version.value.data(), version.value.size());
  to.resize(round_up(to.size(), 8));
}

// Now and then three changes that take effect together.
class SmallGroup {
 public:
  // The stamp is a group's number, and no change has it.
  [[nodiscard]] static bool begins_with(uint64_t stamp) noexcept {
    return stamp > 0 && stamp % kEach == 0 && stamp / kEach != SmallStore::kSnapshotStamp / kEach;
  }
  [[nodiscard]] static bool takes(uint64_t stamp) noexcept {
    const uint64_t behind = stamp % kEach;
    return begins_with(stamp - behind) && behind >= 1 && behind <= 3;
  }
  // An erasure has no version.
  void add(const std::string& key, const Version* version, uint64_t stamp) {
    changes_.push_back({.key = key, .version = version == nullptr ? Version{} : *version, .stamp = stamp});
    changes_.back().is_erase = version == nullptr;
  }
  void append_to(storage::ShardLog& log) {
    std::vector<Record> records;
    for (const Change& one : changes_) {
      records.push_back({.kind = one.is_erase ? storage::RecordKind::kErase : storage::RecordKind::kPut,
                         .stamp = one.stamp,
                         .expires_wall_ns = one.version.expires_wall_ns,
                         .key = std::as_bytes(std::span(one.key)),
                         .value = std::as_bytes(std::span(one.version.value)),
                         .value_bytes = one.version.value.size()});
    }
    log.append_group(changes_.front().stamp - 1, records);
    (void)log.step();
    changes_.clear();
  }

 private:
  static constexpr uint64_t kEach = 12;
  struct Change {
    std::string key;
    Version version;
    uint64_t stamp = 0;
    bool is_erase = false;
  };
  std::vector<Change> changes_;
};

}  // namespace

SmallStore::SmallStore(bool logs_from_the_start) {
  facts_ = {.store = {std::byte{9}, std::byte{8}},
            .shard_count = kShards,
            .copies = 1,
            .placement = 55,
            .hash_seed = 77,
            .created_wall_ns = 5};
  REFRACT_CHECK(storage::write_store_page(disk_, facts_).has_value());
  for (uint32_t shard = 0; shard < kShards; ++shard) make_shard(shard, logs_from_the_start);
  REFRACT_CHECK(disk_.open("lock", storage::OpenMode::kCreate).has_value());
  files_ = test::needed(disk_.list());
  std::erase_if(files_, [](const std::string& name) { return name == "lock" || name.starts_with("spare-"); });
  for (const std::string& name : files_) sound_[name] = disk_.bytes_of(name);
  find_places();
}

void SmallStore::make_shard(uint32_t shard, bool logs_from_the_start) {
  ManualClock clock;
  clock.set_now_ns(kSecond_ns);
  storage::ShardLogSpec spec{.log = {.store = facts_.store,
                                     .shard = shard,
                                     .shard_count = kShards,
                                     .copies = facts_.copies,
                                     .placement = facts_.placement,
                                     .hash_seed = facts_.hash_seed},
                             .disk = &disk_,
                             .clock = &clock,
                             .reference_bytes = 4096};
  spec.options = {.durability = storage::Durability::kAlways, .segment_bytes = 8192};
  spec.ring_bytes = storage::kRingBytesMin;
  std::unique_ptr<storage::ShardLog> log;
  Content now;
  const auto begin = [&](uint64_t stamp) {
    log = test::needed(storage::ShardLog::open(spec));
    storage::LogReading reading = test::needed(log->read({}, [](const Record&) {}));
    reading.end.stamp = stamp;
    REFRACT_CHECK(log->begin(reading).has_value());
  };
  if (logs_from_the_start) begin(0);
  SmallGroup group;
  for (uint64_t stamp = 1; stamp <= kStamps; ++stamp) {
    if (stamp == SmallStore::kSnapshotStamp) {
      // The moment takes a stamp.
      write_snapshot(shard, stamp, now);
      if (!logs_from_the_start) begin(stamp);
      continue;
    }
    if (group.begins_with(stamp)) continue;
    // Some keys are changed no more behind the snapshot.
    const uint64_t number = stamp % (stamp < SmallStore::kSnapshotStamp ? 19 : 10);
    const std::string key = "key-" + std::to_string(shard) + "-" + std::to_string(number);
    const bool is_erase = stamp % 11 == 0;
    const Version version{.stamp = stamp,
                          .value = std::string(60 + stamp % 5 * 40, static_cast<char>('a' + stamp % 26)),
                          .expires_wall_ns = stamp % 7 == 0 ? kExpires_ns : 0};
    if (is_erase) {
      now.erase(key);
    } else {
      now[key] = version;
      versions_[key].push_back(version);
    }
    if (log == nullptr) continue;
    if (group.takes(stamp)) {
      group.add(key, is_erase ? nullptr : &version, stamp);
      if (!group.takes(stamp + 1)) group.append_to(*log);
      continue;
    }
    log->append({.kind = is_erase ? storage::RecordKind::kErase : storage::RecordKind::kPut,
                 .stamp = stamp,
                 .expires_wall_ns = is_erase ? 0 : version.expires_wall_ns,
                 .key = std::as_bytes(std::span(key)),
                 .value = is_erase ? std::span<const std::byte>{} : std::as_bytes(std::span(version.value))});
    (void)log->step();
  }
  REFRACT_CHECK(log->drain());
  content_.insert(now.begin(), now.end());
}

void SmallStore::write_snapshot(uint32_t shard, uint64_t stamp, const Content& content) {
  const storage::SnapshotFacts facts{.store = facts_.store,
                                     .shard_index = shard,
                                     .shard_count = kShards,
                                     .copies = facts_.copies,
                                     .placement = facts_.placement,
                                     .hash_seed = facts_.hash_seed,
                                     .stamp = stamp,
                                     .wall_ns = kSecond_ns,
                                     .entries_max = content.size()};
  const auto file = test::needed(storage::SnapshotWriter::create(disk_, facts, {}));
  std::vector<std::byte> payload;
  uint32_t entries = 0;
  const auto flush = [&] {
    if (entries > 0) REFRACT_CHECK(file->write(1, entries, payload).has_value());
    payload.clear();
    entries = 0;
  };
  for (const auto& [key, version] : content) {
    append_entry(payload, key, version);
    if (++entries == kEntriesABlock) flush();
  }
  flush();
  REFRACT_CHECK(file->finish().has_value());
  snapshots_.push_back(storage::snapshot_name(shard, stamp));
}

void SmallStore::find_places() {
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    const LogId id{.store = facts_.store, .shard = shard};
    const storage::LogFiles files = test::needed(storage::find_log_files(disk_, id));
    uint64_t group_bytes = 0;
    (void)storage::read_log(disk_, id, nullptr, nullptr, {}, [&](const Record& record) {
      const auto after =
          std::ranges::upper_bound(files.segments, record.position, {}, &storage::Segment::first_position);
      const storage::Segment& segment = *(after - 1);
      const uint64_t begin = storage::kSegmentHeaderBytes + record.position - segment.first_position;
      const uint64_t in_group = storage::group_change_bytes(record.key.size(), record.value_bytes);
      // Those of a group have one place.
      if (!places_.empty() && places_.back().file == segment.name && places_.back().begin == begin) {
        group_bytes += in_group;
        places_.back().end = begin + group_bytes;
        places_.back().keys.insert(text_of(record.key));
        return;
      }
      group_bytes = sizeof(storage::RecordHeader) + in_group;
      places_.push_back({.file = segment.name,
                         .begin = begin,
                         .end = begin + storage::log_bytes(record.key.size(), record.value_bytes),
                         .keys = {text_of(record.key)},
                         .stamp = record.stamp});
    });
    const auto reader = test::needed(storage::SnapshotReader::open(disk_, snapshots_[shard]));
    const auto file = test::needed(reader->open_file());
    std::vector<std::byte> room;
    for (uint64_t index = 0; index < reader->block_count(); ++index) {
      const auto block = test::needed(reader->read(*file, index, room));
      const auto extent = reader->damage_of(index, {});
      Place place{
          .file = snapshots_[shard], .begin = extent.offset, .end = extent.offset + extent.bytes, .keys = {}};
      kv::SnapshotBlockReader entries;
      REFRACT_CHECK(entries
                        .begin({.kind = static_cast<kv::SnapshotBlockKind>(block.kind),
                                .entries = block.entries,
                                .bytes = block.payload})
                        .has_value());
      kv::SnapshotEntry entry;
      while (entries.next(entry)) place.keys.insert(text_of(entry.key));
      places_.push_back(std::move(place));
    }
  }
}

std::set<std::string> SmallStore::touched(const std::string& file, uint64_t from, uint64_t to) const {
  std::set<std::string> keys;
  for (const Place& place : places_) {
    if (place.file == file && place.begin < to && from < place.end)
      keys.insert(place.keys.begin(), place.keys.end());
  }
  return keys;
}

bool SmallStore::has_content(const std::string& file, uint64_t byte) const {
  return !touched(file, byte, byte + 1).empty();
}

Content content_of(storage::Disk& disk) {
  Content content;
  const auto names = test::needed(storage::list_snapshots(disk));
  for (const storage::SnapshotName& name : names) {
    const auto read = node::read_snapshot_entries(
        disk, name.name, {.on_entry = [&](const kv::SnapshotEntry& entry) {
          const bool is_new =
              content
                  .emplace(text_of(entry.key), Version{.stamp = entry.stamp,
                                                       .value = text_of(entry.value),
                                                       .expires_wall_ns = entry.expires_wall_ns})
                  .second;
          REFRACT_CHECK(is_new);
        }});
    REFRACT_CHECK(read && read->is_sound());
  }
  return content;
}

}  // namespace refract::salvage
