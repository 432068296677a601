// SPDX-License-Identifier: Apache-2.0
#include "refract/node/durable/folder_salvage.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "refract/base/boot_id.h"
#include "refract/base/prng.h"
#include "refract/memory/store_time.h"
#include "refract/node/durable/kept_entries.h"
#include "refract/node/durable/shard_fill.h"
#include "refract/node/hosted/store_contents.h"
#include "refract/storage/log/common_end.h"
#include "refract/storage/store_folder.h"

namespace refract::node {
namespace {

using kv::ChangeLog;
using storage::Disk;

[[nodiscard]] ChangeLog::Change change_of_entry(const kv::SnapshotEntry& entry) noexcept {
  return {.kind = ChangeLog::Kind::kPut,
          .stamp = entry.stamp,
          .expires_wall_ns = entry.expires_wall_ns,
          .request = entry.request,
          .key = entry.key,
          .value = entry.value,
          .buffer = {}};
}

// What one shard's files gave.
struct ShardFind {
  KeptEntries entries;
  // Of the snapshot: what it says of transactions over several shards.
  struct OfParts {
    uint64_t kind = 0;
    std::vector<std::byte> payload;
  };
  std::vector<OfParts> parts;
  uint64_t highest_stamp = 0;  // Of all that is known to have been given.

  void know(uint64_t stamp) noexcept { highest_stamp = std::max(highest_stamp, stamp); }
};

class Salvage {
 public:
  Salvage(Disk& to, const SalvageOptions& options)
      : to_(to), options_(options), clock_(options.clock == nullptr ? system_clock() : *options.clock) {}

  // Begins the new store: of this one, which was found.
  [[nodiscard]] Reported<> begin(const storage::StoreFacts& old, bool knows_time) {
    done_.facts = old;
    rings_ = std::exchange(done_.facts.rings, {});
    done_.facts.store = storage::random_store_id();
    done_.facts.created_wall_ns = clock_.wall_ns();
    if (!knows_time) done_.facts.time = begin_time(clock_, host_boot_id());
    if (done_.facts.hash_seed == 0) done_.facts.hash_seed = secure_random_u64();
    return storage::write_store_page(to_, done_.facts);
  }

  // Before any, of all: what shards have prepared has happened where another one's files say so, and logs
  // that lost their ends in a crash end together.
  void learn_of_all(Disk& from, const storage::StoreId& store);
  [[nodiscard]] Reported<> salvage_shard(Disk& from, const storage::LogId& id);
  [[nodiscard]] Reported<SnapshotReading> read_snapshot(Disk& from, const std::string& name,
                                                        ShardFind& found);
  [[nodiscard]] Reported<> write_shard(uint32_t shard, const ShardFind& found);
  void leave_out(const std::vector<FileDamage>& damages) {
    done_.left_out.insert(done_.left_out.end(), damages.begin(), damages.end());
  }
  void note(uint32_t shard, const std::string& what) {
    done_.notes.push_back(done_.facts.shard_count == 1 ? what : fmt::format("shard {}: {}", shard, what));
  }
  void note_hosted(uint32_t shard) {
    note(shard, "what stores beside the keys have is left out: only a node that hosts them can read it");
  }
  [[nodiscard]] Salvaged finish() { return std::move(done_); }

 private:
  struct Decided {
    uint32_t shard = 0;
    uint64_t position = 0;
    uint64_t place = 0;
    uint64_t number = 0;
  };
  // Whether its log has no hole.
  [[nodiscard]] bool learn(Disk& from, const storage::LogId& id);
  // Of the snapshots. Returns where the log ended at the youngest's moment; 0: not known.
  uint64_t learn_decided(Disk& from, const storage::LogId& id);
  // Of the log; UINT64_MAX: all that it has counts.
  [[nodiscard]] uint64_t end_of(uint32_t shard) const noexcept {
    const bool is_cut = shard < ends_.size() && ends_[shard] < needs_[shard].end();
    return is_cut ? ends_[shard] : UINT64_MAX;
  }

  // The snapshot that the log is applied to; nothing: there is none, or it is not whole.
  struct Base {
    std::optional<uint64_t> stamp;
    bool has_any = false;
  };
  [[nodiscard]] Reported<Base> find_base(Disk& from, const storage::LogId& id, ShardFind& found);
  [[nodiscard]] Reported<bool> is_whole_behind(Disk& from, const storage::LogId& id, uint64_t stamp);
  [[nodiscard]] Reported<> apply_log(Disk& from, const storage::LogId& id, const Base& base,
                                     ShardFind& found);
  void note_log(const storage::LogId& id, const storage::LogReading& log, const Base& base);
  [[nodiscard]] ShardLogRequest request_of(Disk& from, const storage::LogId& id) const {
    return {.disk = from, .log_id = id, .rings = rings_};
  }

  Disk& to_;
  const SalvageOptions& options_;
  const Clock& clock_;
  Salvaged done_;
  storage::RingUse rings_ = {};  // Of the old folder.
  storage::DecidedNumbers decided_;
  std::vector<Decided> decided_in_logs_;
  std::vector<storage::LogNeeds> needs_;  // By shards.
  std::vector<uint64_t> ends_;            // Likewise; empty: there is a hole, and nothing is cut.
};

// What cannot be read here is told by those that need it.
uint64_t Salvage::learn_decided(Disk& from, const storage::LogId& id) {
  uint64_t position = 0;
  const auto names = storage::list_snapshots(from);
  for (size_t i = 0; names && i < names->size(); ++i) {
    if ((*names)[i].shard_index != id.shard) continue;
    const auto snapshot = storage::SnapshotReader::salvage(from, (*names)[i].name);
    const auto file = snapshot ? (*snapshot)->open_file() : report(snapshot.error());
    if (!file) continue;
    position = (*snapshot)->facts().log_position;
    // They stand in front of all others.
    std::vector<std::byte> room;
    for (uint64_t block = 0; block < (*snapshot)->block_count(); ++block) {
      const auto read = (*snapshot)->read(**file, block, room);
      if (!read || read->kind != storage::kSnapshotDecided) break;
      (void)decided_.add_block(read->payload);
    }
  }
  return position;
}

bool Salvage::learn(Disk& from, const storage::LogId& id) {
  const uint64_t snapshot_position = learn_decided(from, id);
  storage::LogNeeds& needs = needs_[id.shard];
  const auto know = [&](const storage::Record& record) {
    needs.take(record);
    if (record.kind != storage::RecordKind::kDecided) return;
    decided_in_logs_.push_back({id.shard, record.position, record.client, record.sequence});
  };
  const ShardLogRequest request = request_of(from, id);
  const auto log = read_shard_log(request, {.salvage = true}, know);
  if (!log) return false;
  needs.end_with(*log, !ring_path(request).empty(), snapshot_position);
  return log->damages.empty();
}

void Salvage::learn_of_all(Disk& from, const storage::StoreId& store) {
  const uint32_t shards = done_.facts.shard_count;
  needs_.resize(shards);
  bool is_whole = true;
  for (uint32_t shard = 0; shard < shards; ++shard) {
    is_whole &= learn(from, {.store = store, .shard = shard});
  }
  const storage::CommonEnds common = storage::common_ends(needs_);
  if (is_whole) ends_ = common.ends;
  if (is_whole && common.shard_with_loss) {
    note(static_cast<uint32_t>(*common.shard_with_loss),
         "its log ends where other shards' logs say that more was on the disk: what follows from that is "
         "left out, "
         "of all shards");
  }
  for (const Decided& one : decided_in_logs_) {
    if (one.position < end_of(one.shard)) decided_.add(one.place, one.number);
  }
}

Reported<SnapshotReading> Salvage::read_snapshot(Disk& from, const std::string& name, ShardFind& found) {
  auto read = read_snapshot_entries(from, name,
                                    {.on_entry =
                                         [&](const kv::SnapshotEntry& entry) {
                                           found.know(entry.stamp);
                                           found.entries.apply(change_of_entry(entry));
                                         },
                                     .on_parts =
                                         [&](uint64_t kind, std::span<const std::byte> payload) {
                                           found.parts.push_back({kind, {payload.begin(), payload.end()}});
                                           return true;
                                         },
                                     .on_progress = options_.on_progress});
  if (!read) return read;
  found.know(read->facts.stamp);
  if (read->hosted_blocks > 0) note_hosted(read->facts.shard_index);
  return read;
}

// Whether the log has every change behind the stamp.
Reported<bool> Salvage::is_whole_behind(Disk& from, const storage::LogId& id, uint64_t stamp) {
  const auto log = read_shard_log(request_of(from, id), {.after_stamp = stamp}, {});
  if (!log) return report(log.error());
  return log->damages.empty() && log->begins_after_stamp <= stamp;
}

Reported<Salvage::Base> Salvage::find_base(Disk& from, const storage::LogId& id, ShardFind& found) {
  auto names = storage::list_snapshots(from);
  if (!names) return report(std::move(names).error());
  std::erase_if(*names, [&](const storage::SnapshotName& name) { return name.shard_index != id.shard; });
  Base base;
  for (auto name = names->rbegin(); name != names->rend(); ++name) {
    found.know(name->stamp);
    ShardFind tried;
    auto read = read_snapshot(from, name->name, tried);
    found.know(tried.highest_stamp);
    if (!read && read.error().code != Code::kCorrupt && read.error().code != Code::kMalformed) {
      return report(std::move(read).error());
    }
    Reported<> placed;
    if (read && read->has_header) placed = is_at_its_place(from, id, name->name, read->facts);
    if (!read || !placed) {
      leave_out({{.path = from.path_of(name->name),
                  .what = read ? placed.error().what : "nothing in it can be verified",
                  .lost = "all its entries"}});
      continue;
    }
    const bool is_youngest = !base.has_any;
    if (is_youngest) leave_out(damages_of(from, name->name, *read));
    bool is_base = is_youngest && read->is_sound();
    if (!is_base && read->is_sound()) {
      const auto whole = is_whole_behind(from, id, read->facts.stamp);
      if (!whole) return report(whole.error());
      is_base = *whole;
      if (is_base) {
        note(id.shard, fmt::format("{} was used, and the log behind it: nothing of the damaged one is missed",
                                   from.path_of(name->name)));
      }
    }
    if (is_base || is_youngest) {
      base.has_any = true;
      found.entries = std::move(tried.entries);
      found.parts = std::move(tried.parts);
    }
    if (is_base) {
      base.stamp = read->facts.stamp;
      return base;
    }
    if (!is_youngest) {
      note(id.shard, fmt::format("{} was not used: it is older, and would bring back what was erased since",
                                 from.path_of(name->name)));
    }
  }
  return base;
}

Reported<> Salvage::apply_log(Disk& from, const storage::LogId& id, const Base& base, ShardFind& found) {
  uint64_t told = 0;
  bool has_hosted = false;
  storage::LogReadOptions log_options{
      .after_stamp = base.stamp.value_or(0), .salvage = true, .end_position = end_of(id.shard)};
  log_options.on_progress = [&](uint64_t done, uint64_t) {
    if (options_.on_progress) options_.on_progress(done - std::min(done, std::exchange(told, done)));
  };
  const auto apply_change = [&](const storage::Record& record) {
    ++done_.changes;
    found.entries.apply(change_of(record));
  };
  storage::LogParts parts(apply_change);
  for (const ShardFind::OfParts& one : found.parts) (void)parts.load(one.kind, one.payload);
  const auto apply = [&](const storage::Record& record) {
    if (storage::LogParts::concerns(record)) return parts.take(record);
    if (record.kind != storage::RecordKind::kHosted) return apply_change(record);
    has_hosted = true;
  };
  ShardLogRequest request = request_of(from, id);
  auto log = read_shard_log(request, log_options, apply);
  if (!log && (log.error().code == Code::kCorrupt || log.error().code == Code::kInUse) &&
      request.rings.is_in_use != 0) {
    leave_out({{.path = ring_path(request), .what = log.error().what, .lost = "changes that only it had"}});
    request.rings = {};
    log = read_shard_log(request, log_options, apply);
  }
  if (!log) return report(std::move(log).error());
  (void)parts.settle(decided_);
  if (has_hosted) note_hosted(id.shard);
  found.know(log->end.stamp);
  note_log(id, *log, base);
  return {};
}

void Salvage::note_log(const storage::LogId& id, const storage::LogReading& log, const Base& base) {
  bool has_hole = false;
  for (const storage::LogDamage& damage : log.damages) {
    done_.left_out.push_back(damage_of(damage));
    has_hole |= damage.changes_max > 0;
  }
  if (log.begins_after_stamp > base.stamp.value_or(0)) {
    has_hole = true;
    const std::string what = base.has_any ? "the log begins behind what is whole in the snapshot"
                                          : "there is no snapshot of what came before the log's first file";
    note(id.shard, fmt::format("{}: changes up to version {} may be missing", what, log.begins_after_stamp));
  }
  if (has_hole) {
    std::string what =
        "the log has a hole: later changes of the same keys were applied over it, and a key whose last "
        "change "
        "was in it has the value of before, or is back though it had been erased";
    if (done_.facts.shard_count > 1) {
      what += "; of a transaction over several shards one may have its changes and another one not";
    }
    note(id.shard, what);
  }
  if (end_of(id.shard) != UINT64_MAX) {
    note(id.shard,
         "the log's last changes are left out: they came behind a transaction that another shard's log has "
         "lost "
         "in a crash");
  }
  if (log.torn_position != 0) note(id.shard, "the log's end was torn by a crash: " + log.torn.to_string());
}

Reported<> Salvage::salvage_shard(Disk& from, const storage::LogId& id) {
  ShardFind found;
  const auto base = find_base(from, id, found);
  if (!base) return report(base.error());
  if (auto applied = apply_log(from, id, *base, found); !applied) return applied;
  return write_shard(id.shard, found);
}

Reported<> Salvage::write_shard(uint32_t shard, const ShardFind& found) {
  const storage::StoreFacts& facts = done_.facts;
  const storage::SnapshotFacts snapshot{.store = facts.store,
                                        .shard_index = shard,
                                        .shard_count = facts.shard_count,
                                        .copies = facts.copies,
                                        .placement = facts.placement,
                                        .hash_seed = facts.hash_seed,
                                        // No entry has it; and a start continues far above it.
                                        .stamp = found.highest_stamp + 1,
                                        .wall_ns = StoreClock(clock_, facts.time.offset_ns).wall_ns(),
                                        .entries_max = found.entries.count()};
  const auto written = found.entries.write(to_, snapshot);
  if (!written) return report(written.error());
  done_.entries += written->entries;
  done_.bytes += written->file_bytes;
  return {};
}

// A start that would refuse them refuses them here, too.
[[nodiscard]] Reported<> check_source(Disk& from, const SalvageOptions& options) {
  const auto read = read_folder(from, {.on_progress = options.on_progress});
  if (!read) return report(read.error());
  if (read->refusal) return report(*read->refusal);
  return {};  // Of one that a node has, the taking of the lock says more.
}

}  // namespace

Reported<Salvaged> salvage_folder(Disk& from, Disk& to, const SalvageOptions& options) {
  // It takes the lock as well, for as long as it looks.
  if (!options.salvages) {
    if (auto checked = check_source(from, options); !checked) return report(std::move(checked).error());
  }
  const auto lock = lock_folder(from);
  if (!lock) return report(lock.error());
  const auto found = find_facts(from);
  if (!found) return report(found.error());
  Salvage salvage(to, options);
  if (auto begun = salvage.begin(found->facts, !found->page_damage); !begun)
    return report(std::move(begun).error());
  if (found->page_damage) {
    salvage.leave_out({{.path = from.path_of("store"),
                        .bytes = sizeof(storage::StorePage),
                        .what = found->page_damage->what,
                        .lost = "the store's time: entries expire by this host's clock"}});
  }
  const uint32_t shards = found->facts.shard_count;
  if (shards > 1) salvage.learn_of_all(from, found->facts.store);
  for (uint32_t shard = 0; shard < shards; ++shard) {
    const storage::LogId id{.store = found->facts.store, .shard = shard};
    if (auto done = salvage.salvage_shard(from, id); !done) return report(std::move(done).error());
  }
  Salvaged done = salvage.finish();
  // A disk that gives other bytes each time.
  if (options.salvages || done.left_out.empty()) return done;
  return report(Code::kCorrupt, done.left_out.front().to_string(), salvage_advice(from));
}

Reported<Salvaged> salvage_snapshots(const std::vector<SnapshotSourceFile>& files, Disk& to,
                                     const SalvageOptions& options) {
  std::map<uint32_t, const SnapshotSourceFile*> by_shard;
  std::optional<storage::SnapshotFacts> first;
  for (const SnapshotSourceFile& file : files) {
    const auto reader = options.salvages ? storage::SnapshotReader::salvage(file.disk, file.name)
                                         : storage::SnapshotReader::open(file.disk, file.name);
    if (!reader) return report(reader.error());
    const storage::SnapshotFacts& facts = (*reader)->facts();
    if (!by_shard.emplace(facts.shard_index, &file).second) {
      return report(Code::kInvalidArgument,
                    fmt::format("{} is the second snapshot of shard {}", file.disk.path_of(file.name),
                                facts.shard_index),
                    "name one for each shard");
    }
    if (!(*reader)->has_header()) continue;
    if (!first) first = facts;
    if (facts.store == first->store && facts.shard_count == first->shard_count) continue;
    return report(
        Code::kInvalidArgument,
        fmt::format("{} is of another store than the snapshot before", file.disk.path_of(file.name)),
        "name snapshots of one store, one for each shard");
  }
  if (!first) {
    return report(Code::kCorrupt,
                  "none of the snapshots says of which store it is: their headers are damaged",
                  "name another snapshot of the same store beside them");
  }
  if (by_shard.size() != first->shard_count) {
    return report(Code::kInvalidArgument,
                  fmt::format("the store had {} shards, and these are snapshots of {}", first->shard_count,
                              by_shard.size()),
                  "name one for each shard: snapshot-000-..., snapshot-001-...");
  }
  Salvage salvage(to, options);
  const storage::StoreFacts old{.store = first->store,
                                .shard_count = first->shard_count,
                                .copies = first->copies,
                                .placement = first->placement,
                                .hash_seed = first->hash_seed};
  if (auto begun = salvage.begin(old, false); !begun) return report(std::move(begun).error());
  for (const auto& [shard, file] : by_shard) {
    ShardFind found;
    const auto read = salvage.read_snapshot(file->disk, file->name, found);
    if (!read) return report(read.error());
    const std::vector<FileDamage> damages = damages_of(file->disk, file->name, *read);
    if (!damages.empty() && !options.salvages) {
      return report(Code::kCorrupt, damages.front().to_string(),
                    "use another snapshot, or take what is left of this one: refract restore --salvage");
    }
    salvage.leave_out(damages);
    if (auto written = salvage.write_shard(shard, found); !written) return report(std::move(written).error());
  }
  return salvage.finish();
}

}  // namespace refract::node
