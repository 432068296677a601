// SPDX-License-Identifier: Apache-2.0
#include "apps/refract/data_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "apps/progress/progress.h"
#include "apps/refract/terminal.h"

namespace refract::cli {
namespace {

using observe::DataState;
using observe::LogStatus;
using observe::RecoveryStatus;
using observe::SnapshotStatus;
using progress::bytes_text;
using progress::count_text;

std::string seconds_text(uint64_t ns) {
  return progress::duration_text(static_cast<double>(ns) / 1e9);
}

std::string counted(uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count_text(count), count == 1 ? one : many);
}

int badness(std::string_view log_state) noexcept {
  return log_state == "failed" ? 2 : log_state == "stalled" ? 1 : 0;
}

void add(LogStatus& sum, const LogStatus& log) {
  if (sum.state.empty() || badness(log.state) > badness(sum.state)) {
    sum.state = log.state;
    sum.trouble = log.trouble;
  }
  sum.unsynced_bytes += log.unsynced_bytes;
  sum.syncs += log.syncs;
  sum.last_sync_age_ns = std::max(sum.last_sync_age_ns, log.last_sync_age_ns);
  sum.disk_bytes += log.disk_bytes;
  sum.since_snapshot_bytes += log.since_snapshot_bytes;
  sum.refused_writes += log.refused_writes;
}

// A failure counts until a later attempt has succeeded.
bool has_failed(const SnapshotStatus& snapshots) noexcept {
  return snapshots.failed_attempt > snapshots.written_attempt;
}

void add(SnapshotStatus& sum, const SnapshotStatus& one, bool is_first) {
  if (has_failed(one)) {
    sum.failed_attempt = one.failed_attempt;
    sum.failed_age_ns = one.failed_age_ns;
    sum.failed_why = one.failed_why;
    sum.failed_next = one.failed_next;
  }
  sum.begun += one.begun;
  sum.ended += one.ended;
  sum.entries_now += one.begun > one.ended ? one.entries_now : 0;
  sum.entries_max += one.begun > one.ended ? one.entries_max : 0;
  sum.bytes_now += one.begun > one.ended ? one.bytes_now : 0;
  sum.entries += one.entries;
  sum.bytes += one.bytes;
  sum.took_ns = std::max(sum.took_ns, one.took_ns);
  sum.age_ns = std::max(sum.age_ns, one.age_ns);
  // A node has a snapshot when each of its shards has one.
  sum.file = is_first || (!sum.file.empty() && !one.file.empty()) ? one.file : std::string();
}

void add(RecoveryStatus& sum, const RecoveryStatus& one) {
  sum.source = one.source;
  sum.entries += one.entries;
  sum.records += one.records;
  sum.torn_position = std::max(sum.torn_position, one.torn_position);
  sum.took_ns = std::max(sum.took_ns, one.took_ns);
}

std::string mode_line(const DataState& data) {
  if (data.durability == "everysec" && data.ring == "memory") {
    return fmt::format(
        "everysec, in {}, the log's ring in memory: all but about the last second outlives the node and a "
        "crash of the host",
        printable(data.folder));
  }
  if (data.durability == "everysec") {
    return fmt::format(
        "everysec, in {}: outlives every process; of a crash of the host, all but about the last "
        "second",
        printable(data.folder));
  }
  if (data.durability == "always") {
    return fmt::format("always, in {}: what is acknowledged outlives a crash of the host",
                       printable(data.folder));
  }
  if (data.backing.starts_with("file:")) {
    return fmt::format("none, memory in {}: outlives every process; a crash of the host loses everything",
                       printable(data.backing));
  }
  return "none: in memory only, and lost with the node; a crash of the host loses everything";
}

std::string log_line(const LogStatus& log) {
  std::string out;
  if (badness(log.state) == 2) out = fmt::format("FAILED, writes are refused: {}; ", printable(log.trouble));
  if (badness(log.state) == 1) out = fmt::format("WAITS FOR ROOM: {}; ", printable(log.trouble));
  out += log.unsynced_bytes == 0 ? "all of it on the disk"
                                 : fmt::format("{} not on the disk yet", bytes_text(log.unsynced_bytes));
  if (log.syncs > 0) {
    out += fmt::format(", {}, the last {} ago", counted(log.syncs, "sync", "syncs"),
                       seconds_text(log.last_sync_age_ns));
  }
  out += fmt::format("; {} since the last snapshot, files of {}", bytes_text(log.since_snapshot_bytes),
                     bytes_text(log.disk_bytes));
  if (log.refused_writes > 0)
    out += fmt::format("; {} refused", counted(log.refused_writes, "write", "writes"));
  return out;
}

std::string snapshot_line(const SnapshotStatus& snapshots, size_t shards) {
  std::string out = "none yet";
  if (!snapshots.file.empty()) {
    out = fmt::format("{}, {}, {} ago", counted(snapshots.entries, "entry", "entries"),
                      bytes_text(snapshots.bytes), seconds_text(snapshots.age_ns));
    if (snapshots.took_ns > 0) out += fmt::format(", took {}", seconds_text(snapshots.took_ns));
    if (shards == 1) out += fmt::format(": {}", printable(snapshots.file));
  }
  if (snapshots.begun > snapshots.ended) {
    out += fmt::format("; one is being written: {} of {} entries", count_text(snapshots.entries_now),
                       count_text(snapshots.entries_max));
  }
  return out;
}

std::string start_line(const RecoveryStatus& recovery) {
  if (recovery.source == "nothing") return "empty: there was nothing before";
  std::string out = fmt::format("{} from {} in {}", counted(recovery.entries, "entry", "entries"),
                                recovery.source == "disk" ? "the disk" : "memory, as the last server left it",
                                seconds_text(recovery.took_ns));
  if (recovery.records > 0)
    out += fmt::format(", {} applied", counted(recovery.records, "change of the log", "changes of the log"));
  if (recovery.torn_position > 0) {
    out += fmt::format("; the log's end was torn by a crash, and cut at {}", recovery.torn_position);
  }
  return out;
}

}  // namespace

DataState whole_of(std::span<const DataState> shards) {
  DataState whole;
  for (const DataState& one : shards) {
    whole.durability = one.durability;
    whole.backing = one.backing;
    whole.folder = one.folder;
    if (whole.ring != "memory") whole.ring = one.ring;
    add(whole.log, one.log);
    add(whole.snapshots, one.snapshots, &one == shards.data());
    add(whole.recovery, one.recovery);
  }
  return whole;
}

std::string data_lines(std::span<const DataState> shards) {
  const DataState whole = whole_of(shards);
  if (whole.durability.empty()) return {};
  std::string out = fmt::format("data         {}\n", mode_line(whole));
  if (!whole.folder.empty()) {
    out += fmt::format("log          {}\n", log_line(whole.log));
    out += fmt::format("snapshot     {}\n", snapshot_line(whole.snapshots, shards.size()));
    if (has_failed(whole.snapshots)) {
      out += fmt::format("             FAILED {} ago: {}\n", seconds_text(whole.snapshots.failed_age_ns),
                         printable(whole.snapshots.failed_why));
      if (!whole.snapshots.failed_next.empty()) {
        out += fmt::format("             {}\n", printable(whole.snapshots.failed_next));
      }
    }
  }
  return out + fmt::format("start        {}\n", start_line(whole.recovery));
}

std::string data_line(std::span<const DataState> shards) {
  const DataState whole = whole_of(shards);
  if (whole.durability.empty()) return {};
  std::string out = fmt::format("data {}", whole.durability);
  if (whole.folder.empty()) return out + "\n";
  const LogStatus& log = whole.log;
  out += fmt::format("  log {}", printable(log.state));
  if (!log.trouble.empty()) out += fmt::format(" ({})", printable(log.trouble));
  out += fmt::format("  unsynced {}  since snapshot {}", bytes_text(log.unsynced_bytes),
                     bytes_text(log.since_snapshot_bytes));
  const SnapshotStatus& snapshots = whole.snapshots;
  if (snapshots.begun > snapshots.ended) {
    out += fmt::format("  snapshot writing {}", bytes_text(snapshots.bytes_now));
  } else if (has_failed(snapshots)) {
    out += fmt::format("  snapshot FAILED {} ago", seconds_text(snapshots.failed_age_ns));
  } else {
    out += snapshots.file.empty() ? "  snapshot none"
                                  : fmt::format("  snapshot {} ago", seconds_text(snapshots.age_ns));
  }
  return out + "\n";
}

}  // namespace refract::cli
