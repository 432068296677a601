// SPDX-License-Identifier: Apache-2.0
#include "refract/node/durable/shard_fill.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/log.h"
#include "refract/base/units.h"
#include "refract/node/durable/snapshot_restore.h"
#include "refract/storage/snapshot/snapshot_file.h"

namespace refract::node {
namespace {

constexpr uint64_t kProgressEvery_ns = 5 * kSecond_ns;

class Progress {
 public:
  explicit Progress(const std::string& name) : name_(name), last_ns_(system_clock().now_ns()) {}
  void say(const char* what, uint64_t done, uint64_t total) {
    const uint64_t now_ns = system_clock().now_ns();
    if (now_ns - last_ns_ < kProgressEvery_ns || total == 0) return;
    last_ns_ = now_ns;
    log_info("{}{}: {} of {} MiB", name_, what, done / kMiB, total / kMiB);
  }

 private:
  const std::string& name_;
  uint64_t last_ns_;
};

std::unexpected<Report> too_small(const FillParts& parts) {
  return report(Code::kNoSpace,
                fmt::format("{}the disk has more than fits into {} MiB", parts.name,
                            parts.heap.stats().bytes_total / kMiB),
                "start with a higher --memory-limit; nothing on the disk was changed");
}

}  // namespace

std::string salvage_advice(const storage::Disk& disk) {
  std::string folder = disk.path_of("");
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  return fmt::format(
      "refract check {0} says what is lost; put the files back from a copy of the folder, or save the rest "
      "into "
      "a new one with refract restore --salvage {0} --to NEWFOLDER; nothing on the disk was changed",
      folder);
}

Reported<> is_at_its_place(const storage::Disk& disk, const storage::LogId& log_id, std::string_view name,
                           const storage::SnapshotFacts& facts) {
  if (facts.store != log_id.store || facts.shard_index != log_id.shard) {
    return report(Code::kCorrupt, fmt::format("{} belongs to another store", disk.path_of(name)),
                  "put the files of one store, and no others, into the folder");
  }
  const std::string own = storage::snapshot_name(facts.shard_index, facts.stamp);
  if (own == name) return {};
  return report(Code::kCorrupt, fmt::format("{} is the file {}, under another name", disk.path_of(name), own),
                "rename it back; no other name tells of which moment it is");
}

Reported<> may_serve(const storage::Disk& disk, const std::string& name, const storage::LogReading& reading,
                     uint64_t snapshot_stamp) {
  constexpr size_t kSaid = 5;
  const std::vector<storage::LogDamage>& damages = reading.damages;
  if (!damages.empty()) {
    std::string what =
        fmt::format("{}the log is damaged, and nothing is served before an operator has decided:", name);
    for (size_t i = 0; i < damages.size() && i < kSaid; ++i) what += "\n  " + damages[i].to_string();
    if (damages.size() > kSaid) what += fmt::format("\n  and {} more", damages.size() - kSaid);
    return report(Code::kCorrupt, std::move(what), salvage_advice(disk));
  }
  if (reading.begins_after_stamp <= snapshot_stamp) return {};
  return report(Code::kCorrupt,
                fmt::format("{}the log begins behind change {}, and {}", name, reading.begins_after_stamp,
                            snapshot_stamp == 0
                                ? std::string("there is no snapshot")
                                : fmt::format("the youngest snapshot ends with change {}", snapshot_stamp)),
                "put the missing snapshot back, or: " + salvage_advice(disk));
}

namespace {

// Puts the youngest snapshot into the table. Returns its stamp, and where the log ended; 0: there is none.
Reported<storage::SnapshotFacts> fill_from_snapshot(const FillParts& parts, Progress& progress) {
  const auto snapshots = storage::list_snapshots(parts.disk);
  if (!snapshots) return report(snapshots.error());
  std::string name;
  for (const storage::SnapshotName& each : *snapshots) {
    if (each.shard_index == parts.log_id.shard) name = each.name;
  }
  storage::SnapshotFacts found;
  if (name.empty()) return found;
  const RestoreOptions options{
      .accepts =
          [&](const storage::SnapshotFacts& facts) {
            found = facts;
            return is_at_its_place(parts.disk, parts.log_id, name, facts);
          },
      .on_progress =
          [&](uint64_t done, uint64_t total) {
            progress.say("reading a snapshot", done, total);
            if (parts.grow_ahead) parts.grow_ahead(total - done);
          },
      .on_hosted = [&](auto payload) { return parts.hosted.restore(payload, parts.grow); }};
  auto restored = restore_snapshot(parts.disk, name, parts.filling, options);
  if (!restored) {
    Report why = std::move(restored).error();
    if (why.code == Code::kCorrupt || why.code == Code::kMalformed) why.next = salvage_advice(parts.disk);
    return report(std::move(why));
  }
  return found;
}

// Where the log ends, so that of a transaction over several shards each shard has its own, or none has.
Reported<FillTogether::CommonEnd> find_common_end(const FillParts& parts,
                                                  const storage::SnapshotFacts& snapshot,
                                                  storage::LogReading& whole) {
  if (parts.together == nullptr || !parts.together->is_any_end_lost(parts.log.has_ring())) {
    return FillTogether::CommonEnd{};
  }
  storage::LogNeeds needs;
  auto reading = parts.log.read({.after_stamp = snapshot.stamp},
                                [&](const storage::Record& record) { needs.take(record); });
  if (!reading) return report(std::move(reading).error());
  whole = *std::move(reading);
  // Whatever another shard's log says of a damaged one: that one is refused by itself.
  if (auto served = may_serve(parts.disk, parts.name, whole, snapshot.stamp); !served) {
    return report(std::move(served).error());
  }
  needs.end_with(whole, parts.log.has_ring(), snapshot.log_position);
  const auto end = parts.together->common_end(parts.log_id.shard, std::move(needs));
  if (parts.log.has_ring() && end.position != UINT64_MAX) {
    return report(
        Code::kCorrupt,
        fmt::format("{}the log's ring has changes that follow from what another shard's log lacks: the "
                    "files are not of one moment",
                    parts.name),
        salvage_advice(parts.disk));
  }
  if (!end.shard_with_loss) return end;
  return report(
      Code::kCorrupt,
      fmt::format("the log of shard {} ends where other shards' logs say that more was on the disk: "
                  "files are missing, or older than the others",
                  *end.shard_with_loss),
      salvage_advice(parts.disk));
}

}  // namespace

Reported<Filled> fill_shard(const FillParts& parts) {
  const uint64_t begun_ns = system_clock().now_ns();
  Progress progress(parts.name);
  const auto found_snapshot = fill_from_snapshot(parts, progress);
  if (!found_snapshot) return report(found_snapshot.error());
  const uint64_t snapshot = found_snapshot->stamp;
  storage::LogReading whole;
  const auto end = find_common_end(parts, *found_snapshot, whole);
  if (!end) return report(end.error());
  const bool is_cut = end->position != UINT64_MAX;
  const storage::LogReadOptions options{.after_stamp = snapshot,
                                        .end_position = is_cut ? end->position : UINT64_MAX,
                                        .on_progress = [&](uint64_t done, uint64_t total) {
                                          progress.say("reading the log", done, total);
                                          if (parts.grow_ahead) parts.grow_ahead(total - done);
                                        }};
  Reported<> replayed;
  auto reading = parts.log.read(options, [&](const storage::Record& record) {
    if (record.kind != storage::RecordKind::kHosted) return parts.filling.replay(record);
    if (replayed) replayed = parts.hosted.replay(record, parts.grow);
  });
  if (!reading) return report(std::move(reading).error());
  if (!replayed) return report(std::move(replayed).error());
  if (auto served = may_serve(parts.disk, parts.name, *reading, snapshot); !served) {
    return report(std::move(served).error());
  }
  FillTogether alone(1);
  FillTogether& together = parts.together != nullptr ? *parts.together : alone;
  const FillTogether::Found& found = together.exchange(parts.filling.decided(), parts.filling.has_open());
  std::vector<storage::LogParts::Settled> settled = parts.filling.settle(found.decided);
  const Code flushed = parts.filling.flush();
  if (flushed == Code::kNoSpace) return too_small(parts);
  if (flushed != Code::kOk) {
    return report(
        flushed,
        fmt::format("{}what transactions over several nodes have left in the log makes no sense", parts.name),
        salvage_advice(parts.disk));
  }
  // A log that has a file, and nothing in it, may have lost what readers have seen, unless its ring is there.
  const bool has_lost_nothing = parts.log.has_ring() || reading->fresh_position == storage::kFirstPosition;
  reading->end.stamp = std::max(reading->end.stamp, whole.end.stamp);
  const bool is_first_start = snapshot == 0 && reading->end.stamp == 0 && has_lost_nothing;
  if (!is_first_start) {
    // Written into the segment that the log begins with, before any client is served.
    reading->end.stamp = parts.filling.finish(std::max(snapshot, reading->end.stamp)) - 1;
    log_info("{}{} entries restored from {}{} changes of the log in {} ms", parts.name,
             parts.filling.entries(), snapshot == 0 ? "" : "a snapshot and ", reading->records,
             (system_clock().now_ns() - begun_ns) / kMillisecond_ns);
  }
  if (reading->torn_position != 0) {
    log_warn("{}the log's end was torn by a crash, and cut: {}", parts.name, reading->torn.to_string());
  }
  if (is_cut) {
    log_warn(
        "{}the last {} changes of the log are left out: they came behind a transaction that another shard's "
        "log has lost in the crash",
        parts.name, whole.records - reading->records);
  }
  return Filled{.reading = std::move(*reading),
                .settled = std::move(settled),
                .any_settled = found.has_open || end->is_any_cut};
}

}  // namespace refract::node
