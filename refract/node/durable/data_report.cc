// SPDX-License-Identifier: Apache-2.0
#include "refract/node/durable/data_report.h"

#include <algorithm>

namespace refract::node {
namespace {

const char* state_name(storage::LogState state) noexcept {
  switch (state) {
    case storage::LogState::kRunning:
      return "running";
    case storage::LogState::kStalled:
      return "stalled";
    case storage::LogState::kFailed:
      return "failed";
  }
  return "";
}

}  // namespace

const char* durability_name(Durability durability) noexcept {
  switch (durability) {
    case Durability::kNone:
      return "none";
    case Durability::kEverySecond:
      return "everysec";
    case Durability::kAlways:
      return "always";
  }
  return "";
}

observe::DataState data_state(const NodeConfig& config, const ShardPlan& plan, const ShardStorage* storage,
                              const observe::RecoveryStatus& recovery, uint64_t now_ns) {
  const Durability durability = plan.is_on_disk ? config.durability : Durability::kNone;
  observe::DataState state{.durability = durability_name(durability), .backing = to_uri(plan.space.backing)};
  state.recovery = recovery;
  if (storage == nullptr) return state;
  state.folder = config.data_folder;
  state.ring = storage->ring().is_in_folder() ? "folder" : "memory";
  const storage::ShardLog& log = storage->log();
  const storage::LogCounters counters = log.counters();
  const uint64_t appended = log.appended();
  state.log = {.state = state_name(log.state()),
               .trouble = log.trouble(),
               .unsynced_bytes = appended - std::min(appended, log.synced()),
               .syncs = counters.syncs,
               .last_sync_age_ns = counters.syncs == 0 ? 0 : now_ns - std::min(now_ns, counters.last_sync_ns),
               .disk_bytes = log.disk_bytes(),
               .since_snapshot_bytes = appended - std::min(appended, storage->snapshots().covered())};
  state.snapshots = storage->snapshots().status();
  return state;
}

}  // namespace refract::node
