// SPDX-License-Identifier: Apache-2.0
#include "refract/node/durable/folder_reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "refract/base/boot_id.h"
#include "refract/base/clock.h"
#include "refract/node/durable/shard_fill.h"
#include "refract/storage/log/shard_log.h"

namespace refract::node {
namespace {

using storage::Disk;
using Kind = FileReading::Kind;

constexpr std::string_view kPageName = "store";
constexpr std::string_view kLockName = "lock";

[[nodiscard]] std::string entries_text(const std::optional<uint64_t>& entries) {
  if (!entries) return "entries, how many is unknown";
  if (*entries == 0) return {};
  return *entries == 1 ? "1 entry" : fmt::format("{} entries", *entries);
}

[[nodiscard]] uint64_t bytes_of(Disk& disk, std::string_view name) {
  const auto file = disk.open(name, storage::OpenMode::kRead);
  if (!file) return 0;
  return (*file)->bytes().value_or(0);
}

struct SnapshotFile {
  FileReading file;
  std::optional<storage::SnapshotFacts> facts;  // Where its header is sound.
};

[[nodiscard]] Reported<SnapshotFile> read_snapshot_file(Disk& disk, const std::string& name,
                                                        const FolderReadingOptions& options) {
  const auto read = read_snapshot_entries(disk, name, {.on_progress = options.on_progress});
  SnapshotFile found{.file = {.kind = Kind::kSnapshot, .name = name}, .facts = std::nullopt};
  FileReading& file = found.file;
  if (!read) {
    if (read.error().code != Code::kCorrupt && read.error().code != Code::kMalformed) {
      return report(read.error());
    }
    file.bytes = bytes_of(disk, name);
    file.damages.push_back({.path = disk.path_of(name),
                            .bytes = file.bytes,
                            .what = "nothing in it can be verified",
                            .lost = "all its entries"});
    return found;
  }
  if (read->has_header) found.facts = read->facts;
  file.shard = read->facts.shard_index;
  file.bytes = read->file_bytes;
  file.entries = read->entries;
  file.first_stamp = read->first_stamp;
  file.last_stamp = read->last_stamp;
  file.wall_ns = read->facts.wall_ns;
  file.damages = damages_of(disk, name, *read);
  return found;
}

class FolderReader {
 public:
  FolderReader(Disk& disk, const FolderReadingOptions& options) : disk_(disk), options_(options) {}

  [[nodiscard]] Reported<FolderReading> run() {
    auto names = disk_.list();
    if (!names) return report(std::move(names).error());
    names_ = std::move(*names);
    const auto lock = lock_folder(disk_);
    reading_.is_in_use = !lock && lock.error().code == Code::kInUse;
    if (!lock && !reading_.is_in_use) return report(lock.error());
    const auto found = find_facts(disk_);
    if (!found) return report(found.error());
    store_ = found->facts;
    note_page(*found);
    for (uint32_t shard = 0; shard < store_.shard_count; ++shard) {
      if (auto read = read_shard(shard); !read) return report(std::move(read).error());
    }
    note_others();
    return std::move(reading_);
  }

 private:
  void refuse(Report why) {
    if (!reading_.refusal) reading_.refusal = std::move(why);
  }

  void note_page(const FoundFacts& found) {
    FileReading page{.kind = Kind::kStore, .name = std::string(kPageName)};
    page.bytes = bytes_of(disk_, kPageName);
    if (found.page_damage) {
      page.damages.push_back({.path = disk_.path_of(kPageName),
                              .offset = 0,
                              .bytes = sizeof(storage::StorePage),
                              .what = found.page_damage->what,
                              .lost = "the store's time, by which entries expire"});
      refuse(*found.page_damage);
    } else {
      reading_.facts = found.facts;
    }
    reading_.files.push_back(std::move(page));
  }

  [[nodiscard]] Reported<> read_shard(uint32_t shard) {
    const storage::LogId id{.store = store_.store, .shard = shard};
    uint64_t snapshot_stamp = 0;
    bool has_file = false;
    for (const std::string& name : names_) {
      const auto parsed = storage::parse_snapshot_name(name);
      if (!parsed || parsed->shard_index != shard) continue;
      auto file = read_snapshot(name, id);
      if (!file) return report(std::move(file).error());
      if (!*file) continue;
      has_file = true;
      // The youngest comes last, and is what a start takes.
      snapshot_stamp = parsed->stamp;
      youngest_refusal_ = snapshot_refusal_;
      reading_.files.push_back(std::move(**file));
    }
    if (has_file && youngest_refusal_) refuse(*youngest_refusal_);
    if (reading_.is_in_use) return {};
    return read_log(id, snapshot_stamp, has_file);
  }

  // Nothing: the node that has the folder has removed it meanwhile.
  [[nodiscard]] Reported<std::optional<FileReading>> read_snapshot(const std::string& name,
                                                                   const storage::LogId& id) {
    snapshot_refusal_.reset();
    auto read = read_snapshot_file(disk_, name, options_);
    if (!read && read.error().code == Code::kNotFound) return std::nullopt;
    if (!read) return report(std::move(read).error());
    FileReading& file = read->file;
    file.shard = id.shard;
    if (read->facts) {
      if (auto placed = is_at_its_place(disk_, id, name, *read->facts); !placed) {
        file.damages.push_back({.path = disk_.path_of(name), .what = placed.error().what});
        snapshot_refusal_ = std::move(placed).error();
      } else if (read->facts->shard_count != store_.shard_count) {
        file.damages.push_back({.path = disk_.path_of(name),
                                .what = fmt::format("it is of a store with {} shards, and this one has {}",
                                                    read->facts->shard_count, store_.shard_count)});
      }
    }
    if (!file.damages.empty() && !snapshot_refusal_) {
      snapshot_refusal_ = Report{Code::kCorrupt, file.damages.front().to_string(), salvage_advice(disk_)};
    }
    return std::move(file);
  }

  [[nodiscard]] Reported<> read_log(const storage::LogId& id, uint64_t snapshot_stamp, bool has_file) {
    const ShardLogRequest request{.disk = disk_, .log_id = id, .rings = store_.rings};
    const std::string ring = ring_path(request);
    uint64_t told = 0;
    storage::LogReadOptions log_options{.salvage = true};
    log_options.on_progress = [&](uint64_t done, uint64_t) {
      if (options_.on_progress) options_.on_progress(done - std::min(done, std::exchange(told, done)));
    };
    const auto log = read_shard_log(request, log_options, {});
    if (!log) {
      if (log.error().code != Code::kCorrupt && log.error().code != Code::kInUse) return report(log.error());
      reading_.files.push_back(ring_file(id, ring));
      reading_.files.back().damages.push_back({.path = ring, .what = log.error().what});
      refuse(log.error());
      return {};
    }
    note_log(id, *log, ring);
    if (log->segments.empty() && log->damages.empty() && !has_file) {
      empty_shards_.push_back(id.shard);
      return {};
    }
    const std::string name = store_.shard_count == 1 ? "" : fmt::format("shard {}: ", id.shard);
    Reported<> served = may_serve(disk_, name, *log, snapshot_stamp);
    if (!served && !log->damages.empty()) {
      // As a start reads it: what stands in front of the snapshot does not count.
      const auto again = read_shard_log(request, {.after_stamp = snapshot_stamp}, {});
      if (!again) return report(again.error());
      served = may_serve(disk_, name, *again, snapshot_stamp);
    }
    if (!served) refuse(std::move(served).error());
    return {};
  }

  [[nodiscard]] static FileReading ring_file(const storage::LogId& id, const std::string& path) {
    return {.kind = Kind::kRing, .name = path, .shard = id.shard};
  }

  void note_log(const storage::LogId& id, const storage::LogReading& log, const std::string& ring) {
    const size_t first = reading_.files.size();
    uint64_t records = 0;
    for (const storage::SegmentReading& segment : log.segments) {
      reading_.files.push_back({.kind = Kind::kSegment,
                                .name = segment.name,
                                .shard = id.shard,
                                .bytes = segment.file_bytes,
                                .entries = segment.records,
                                .first_stamp = segment.first_stamp,
                                .last_stamp = segment.last_stamp});
      records += segment.records;
      has_changes_ |= segment.records > 0;
      if (log.torn_position != 0 && log.torn.path == disk_.path_of(segment.name)) {
        reading_.files.back().note =
            "its end was torn by a crash, and a start cuts it: " + log.torn.to_string();
      }
    }
    std::error_code ignored;
    if (!ring.empty() && std::filesystem::exists(ring, ignored)) {
      reading_.files.push_back(ring_file(id, ring));
      const uint64_t all = log.records + log.absent_values;
      reading_.files.back().entries = all - std::min(all, records);
      reading_.files.back().note = "left by a node that was killed; a start takes it up";
    }
    for (const storage::LogDamage& damage : log.damages) {
      const std::string name = damage.path.substr(damage.path.rfind('/') + 1);
      const auto begin = reading_.files.begin() + static_cast<ptrdiff_t>(first);
      auto file = std::find_if(begin, reading_.files.end(),
                               [&](const FileReading& each) { return each.name == name; });
      if (file == reading_.files.end()) {
        reading_.files.push_back({.kind = Kind::kSegment, .name = name, .shard = id.shard});
        file = reading_.files.end() - 1;
        file->bytes = bytes_of(disk_, name);
      }
      file->damages.push_back(damage_of(damage));
    }
  }

  // What a crash has left, what waits for use, and what belongs to no store.
  void note_others() {
    for (const uint32_t shard : empty_shards_) {
      // A crash in the very first start leaves shards without files; not beside one that has served.
      if (!has_changes_) continue;
      FileReading missing{.kind = Kind::kSegment, .name = fmt::format("log-{:03}-*", shard), .shard = shard};
      missing.damages.push_back({.path = disk_.path_of(missing.name),
                                 .what = fmt::format("no file of shard {} is there", shard),
                                 .lost = "all that this shard had"});
      reading_.files.push_back(std::move(missing));
    }
    for (const std::string& name : names_) {
      const bool is_page = name == kPageName || name == kLockName;
      const bool is_spare = name.starts_with("spare-");
      const bool is_part = name.ends_with(".part") || name.ends_with(".new");
      const auto snapshot = storage::parse_snapshot_name(name);
      const auto log_shard = storage::shard_of_segment(name);
      const bool is_foreign = (snapshot && snapshot->shard_index >= store_.shard_count) ||
                              (log_shard && *log_shard >= store_.shard_count);
      if (is_page || (!is_spare && !is_part && !is_foreign)) continue;
      FileReading file{.kind = is_spare ? Kind::kSpare : Kind::kUnfinished, .name = name};
      file.bytes = bytes_of(disk_, name);
      if (is_foreign) {
        file.kind = snapshot ? Kind::kSnapshot : Kind::kSegment;
        file.shard = snapshot ? snapshot->shard_index : *log_shard;
        file.damages.push_back(
            {.path = disk_.path_of(name),
             .bytes = file.bytes,
             .what = fmt::format("the store has {} shards, and this is none of them", store_.shard_count)});
      }
      reading_.files.push_back(std::move(file));
    }
  }

  Disk& disk_;
  const FolderReadingOptions& options_;
  std::vector<std::string> names_;
  storage::StoreFacts store_;
  std::optional<Report> snapshot_refusal_;
  std::optional<Report> youngest_refusal_;
  std::vector<uint32_t> empty_shards_;
  bool has_changes_ = false;
  FolderReading reading_;
};

// A log's file by itself: that others are not there is not its fault.
[[nodiscard]] Reported<FileReading> read_one_segment(Disk& disk, const std::string& name, uint32_t shard) {
  FileReading file{.kind = Kind::kSegment, .name = name, .shard = shard};
  file.bytes = bytes_of(disk, name);
  const auto id = storage::log_id_in(disk, name);
  if (!id) return report(id.error());
  storage::LogId log_id{.shard = shard};
  if (*id) {
    log_id = **id;
  } else if (const auto page = storage::StoreFolder::look(disk); page && *page) {
    log_id.store = (*page)->store;
  }
  const auto log = storage::read_segment_alone(disk, log_id, name);
  if (!log) return report(log.error());
  for (const storage::SegmentReading& segment : log->segments) {
    file.entries = segment.records;
    file.first_stamp = segment.first_stamp;
    file.last_stamp = segment.last_stamp;
  }
  for (const storage::LogDamage& damage : log->damages) file.damages.push_back(damage_of(damage));
  if (log->torn_position != 0) file.note = "its end may have been torn by a crash: " + log->torn.to_string();
  return file;
}

}  // namespace

std::string FileDamage::to_string() const {
  std::string out = path;
  if (bytes > 0) out += fmt::format(": {} bytes at offset {}", bytes, offset);
  out += ": " + what;
  if (!lost.empty()) out += "; lost: " + lost;
  return out;
}

std::string_view text(FileReading::Kind kind) noexcept {
  switch (kind) {
    case Kind::kStore:
      return "store";
    case Kind::kSnapshot:
      return "snapshot";
    case Kind::kSegment:
      return "log";
    case Kind::kRing:
      return "ring";
    case Kind::kSpare:
      return "spare";
    case Kind::kUnfinished:
      return "unfinished";
  }
  return "unknown";
}

uint64_t FolderReading::damage_count() const noexcept {
  uint64_t count = 0;
  for (const FileReading& file : files) count += file.damages.size();
  return count;
}

FileDamage damage_of(const storage::LogDamage& damage) {
  return {.path = damage.path,
          .offset = damage.file_offset,
          .bytes = damage.bytes,
          .what = damage.what,
          .lost = damage.lost()};
}

std::vector<FileDamage> damages_of(const Disk& disk, std::string_view name, const SnapshotReading& reading) {
  std::vector<FileDamage> damages;
  damages.reserve(reading.damages.size());
  for (const storage::SnapshotReader::Damage& damage : reading.damages) {
    damages.push_back({.path = disk.path_of(name),
                       .offset = damage.offset,
                       .bytes = damage.bytes,
                       .what = damage.what,
                       .lost = entries_text(damage.entries)});
  }
  // One hole has what the others do not account for.
  if (damages.size() == 1 && reading.lost) damages.front().lost = entries_text(reading.lost);
  return damages;
}

Reported<std::unique_ptr<storage::Lock>> lock_folder(Disk& disk) {
  // Looking makes no file: where there is no lock, no node has ever had the folder.
  const auto there = disk.open(kLockName, storage::OpenMode::kRead);
  if (!there) {
    if (there.error().code == Code::kNotFound || there.error().code == Code::kAccessDenied) return nullptr;
    return report(there.error());
  }
  auto lock = disk.lock(kLockName);
  if (!lock && lock.error().code == Code::kAccessDenied) return nullptr;
  return lock;
}

Reported<FoundFacts> find_facts(Disk& disk) {
  const auto page = storage::StoreFolder::look(disk);
  if (page && *page) return FoundFacts{.facts = **page, .page_damage = std::nullopt};
  if (page) {
    return report(Code::kNotFound, fmt::format("there is no store in {}", disk.path_of("")),
                  "name the folder that the node has as --data-folder");
  }
  // A version that no file beside it has is a flipped bit.
  const bool may_be_damaged = page.error().code == Code::kCorrupt || page.error().code == Code::kUnsupported;
  if (!may_be_damaged) return report(page.error());
  FoundFacts found{.facts = {}, .page_damage = page.error()};
  found.facts.shard_count = 0;
  // A ring that lies there is looked at, whichever it is; that there is none says nothing.
  found.facts.rings = {.is_in_use = 1, .always = 1, .boot = host_boot_id().value_or(BootId{})};
  const auto names = disk.list();
  if (!names) return report(names.error());
  uint32_t shards = 0;
  for (const std::string& name : *names) {
    if (const auto shard = storage::shard_of_segment(name)) {
      shards = std::max(shards, *shard + 1);
      const auto id = storage::log_id_in(disk, name);
      if (id && *id && found.facts.shard_count == 0) {
        found.facts.store = (*id)->store;
        found.facts.shard_count = (*id)->shard_count;
        found.facts.copies = (*id)->copies;
        found.facts.placement = (*id)->placement;
        found.facts.hash_seed = (*id)->hash_seed;
      }
    }
    if (!storage::parse_snapshot_name(name)) continue;
    const auto file = storage::SnapshotReader::salvage(disk, name);
    if (!file || !(*file)->has_header()) continue;
    found.facts.store = (*file)->facts().store;
    found.facts.shard_count = (*file)->facts().shard_count;
    found.facts.copies = (*file)->facts().copies;
    found.facts.placement = (*file)->facts().placement;
    found.facts.hash_seed = (*file)->facts().hash_seed;
  }
  const bool is_known = found.facts.shard_count != 0;
  if (!is_known && page.error().code == Code::kUnsupported) return report(page.error());
  if (!is_known) found.facts.shard_count = std::max(shards, 1U);
  if (found.facts.hash_seed != 0 || found.facts.shard_count == 1) return found;
  return report(
      Code::kCorrupt,
      fmt::format("{}, and no other file says how the store's keys are shared out among its {} shards",
                  page.error().what, found.facts.shard_count),
      "put the file store back from a copy of the folder");
}

std::string ring_path(const ShardLogRequest& request) {
  const storage::RingUse& rings = request.rings;
  const auto boot = host_boot_id();
  const bool counts = rings.is_in_use != 0 && boot && rings.boot == *boot &&
                      rings.place == static_cast<uint64_t>(storage::RingPlace::kFolder);
  return counts ? request.disk.path_of(storage::ring_name(request.log_id.shard)) : std::string();
}

namespace {

Reported<storage::RingFile> look_at_ring(const ShardLogRequest& request, const std::string& path) {
  const auto folder = storage::RingFolder::open(std::filesystem::path(path).parent_path().string());
  if (!folder) return report(folder.error());
  return storage::RingFile::look(*folder, {.store = request.log_id.store,
                                           .shard = request.log_id.shard,
                                           .boot = request.rings.boot,
                                           .number = request.rings.number});
}

}  // namespace

Reported<storage::LogReading> read_shard_log(const ShardLogRequest& request,
                                             const storage::LogReadOptions& options,
                                             const std::function<void(const storage::Record&)>& on_record) {
  std::optional<storage::RingFile> ring;
  if (const std::string path = ring_path(request); !path.empty()) {
    auto found = look_at_ring(request, path);
    if (found) {
      ring.emplace(*std::move(found));
    } else if (found.error().code != Code::kNotFound) {
      return report(std::move(found).error());
    } else if (request.rings.always == 0) {
      return report(Code::kCorrupt, fmt::format("{} is missing", path), found.error().next);
    }
  }
  const auto log = storage::ShardLog::open({.log = request.log_id,
                                            .ring = ring ? &*ring : nullptr,
                                            .disk = &request.disk,
                                            .clock = &system_clock()});
  if (!log) return report(log.error());
  return (*log)->read(options, on_record ? on_record : [](const storage::Record&) {});
}

Reported<FolderReading> read_folder(Disk& disk, const FolderReadingOptions& options) {
  return FolderReader(disk, options).run();
}

Reported<FileReading> read_one_file(Disk& disk, const std::string& name,
                                    const FolderReadingOptions& options) {
  if (const auto shard = storage::shard_of_segment(name)) return read_one_segment(disk, name, *shard);
  auto read = read_snapshot_file(disk, name, options);
  if (!read) return report(std::move(read).error());
  const bool is_none = !read->facts && read->file.entries == 0 && !storage::parse_snapshot_name(name);
  if (!is_none) return std::move(read->file);
  return report(Code::kMalformed, fmt::format("{} is no snapshot and no log's file", disk.path_of(name)),
                "name a node's data folder, or one of the files in it that begin with snapshot- and log-");
}

}  // namespace refract::node
