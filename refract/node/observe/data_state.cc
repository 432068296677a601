// SPDX-License-Identifier: Apache-2.0
#include "refract/node/observe/data_state.h"

#include "refract/node/observe/lenient_json.h"

namespace refract::observe {
namespace {

using Json = nlohmann::json;

Json log_json(const LogStatus& log) {
  return {{"state", log.state},
          {"trouble", log.trouble},
          {"unsynced_bytes", log.unsynced_bytes},
          {"syncs", log.syncs},
          {"last_sync_age_ns", log.last_sync_age_ns},
          {"disk_bytes", log.disk_bytes},
          {"since_snapshot_bytes", log.since_snapshot_bytes},
          {"refused_writes", log.refused_writes}};
}

LogStatus log_of(const Json& object) {
  return {.state = text_in(object, "state"),
          .trouble = text_in(object, "trouble"),
          .unsynced_bytes = number_in(object, "unsynced_bytes"),
          .syncs = number_in(object, "syncs"),
          .last_sync_age_ns = number_in(object, "last_sync_age_ns"),
          .disk_bytes = number_in(object, "disk_bytes"),
          .since_snapshot_bytes = number_in(object, "since_snapshot_bytes"),
          .refused_writes = number_in(object, "refused_writes")};
}

Json snapshots_json(const SnapshotStatus& snapshots) {
  return {{"begun", snapshots.begun},
          {"ended", snapshots.ended},
          {"entries_now", snapshots.entries_now},
          {"entries_max", snapshots.entries_max},
          {"bytes_now", snapshots.bytes_now},
          {"file", snapshots.file},
          {"written_attempt", snapshots.written_attempt},
          {"entries", snapshots.entries},
          {"bytes", snapshots.bytes},
          {"took_ns", snapshots.took_ns},
          {"age_ns", snapshots.age_ns},
          {"failed_attempt", snapshots.failed_attempt},
          {"failed_age_ns", snapshots.failed_age_ns},
          {"failed_why", snapshots.failed_why},
          {"failed_next", snapshots.failed_next}};
}

SnapshotStatus snapshots_of(const Json& object) {
  return {.begun = number_in(object, "begun"),
          .ended = number_in(object, "ended"),
          .entries_now = number_in(object, "entries_now"),
          .entries_max = number_in(object, "entries_max"),
          .bytes_now = number_in(object, "bytes_now"),
          .file = text_in(object, "file"),
          .written_attempt = number_in(object, "written_attempt"),
          .entries = number_in(object, "entries"),
          .bytes = number_in(object, "bytes"),
          .took_ns = number_in(object, "took_ns"),
          .age_ns = number_in(object, "age_ns"),
          .failed_attempt = number_in(object, "failed_attempt"),
          .failed_age_ns = number_in(object, "failed_age_ns"),
          .failed_why = text_in(object, "failed_why"),
          .failed_next = text_in(object, "failed_next")};
}

Json recovery_json(const RecoveryStatus& recovery) {
  return {{"source", recovery.source},
          {"entries", recovery.entries},
          {"records", recovery.records},
          {"torn_position", recovery.torn_position},
          {"took_ns", recovery.took_ns}};
}

RecoveryStatus recovery_of(const Json& object) {
  return {.source = text_in(object, "source"),
          .entries = number_in(object, "entries"),
          .records = number_in(object, "records"),
          .torn_position = number_in(object, "torn_position"),
          .took_ns = number_in(object, "took_ns")};
}

}  // namespace

Json json_of(const DataState& state) {
  return {{"durability", state.durability},
          {"backing", state.backing},
          {"folder", state.folder},
          {"ring", state.ring},
          {"log", log_json(state.log)},
          {"snapshots", snapshots_json(state.snapshots)},
          {"recovery", recovery_json(state.recovery)}};
}

DataState data_state_of(const Json& object) {
  return {.durability = text_in(object, "durability"),
          .backing = text_in(object, "backing"),
          .folder = text_in(object, "folder"),
          .ring = text_in(object, "ring"),
          .log = log_of(member_of(object, "log")),
          .snapshots = snapshots_of(member_of(object, "snapshots")),
          .recovery = recovery_of(member_of(object, "recovery"))};
}

}  // namespace refract::observe
