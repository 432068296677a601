// SPDX-License-Identifier: Apache-2.0
#include "refract/node/durable/log_stands.h"

#include "refract/base/units.h"

namespace refract::node {

namespace {

constexpr uint64_t kWithoutRoom_ns = 5 * kSecond_ns;
constexpr uint64_t kFailed_ns = 60 * kSecond_ns;

}  // namespace

void LogStands::join(uint32_t shard, const storage::ShardLog& log) {
  note(shard, log);
  note_state(shard, log);
  std::unique_lock lock(mutex_);
  logs_[shard] = &log;
  ++join_count_;
  joined_.notify_all();
  joined_.wait(lock, [&] { return join_count_ >= shards_; });
}

void LogStands::leave(uint32_t shard) {
  const std::lock_guard lock(mutex_);
  logs_[shard] = nullptr;
}

void LogStands::note_state(uint32_t shard, const storage::ShardLog& log) noexcept {
  const bool loses = are_needed() && log.state() != storage::LogState::kRunning;
  const bool is_stuck = loses || !log.has_begun();
  if (stands_[shard].is_stuck == is_stuck) return;
  stands_[shard].is_stuck = is_stuck;
  if (is_stuck) {
    stuck_.fetch_add(1, std::memory_order_acq_rel);
  } else {
    stuck_.fetch_sub(1, std::memory_order_acq_rel);
  }
}

storage::LogStand LogStands::of(uint32_t shard) const noexcept {
  // What is synced first: it is never above the position then.
  const uint64_t synced = stands_[shard].synced.load(std::memory_order_acquire);
  return {.position = stands_[shard].position.load(std::memory_order_acquire), .synced = synced};
}

std::vector<storage::LogStand> LogStands::all() const {
  std::vector<storage::LogStand> stands;
  for (uint32_t shard = 0; shard < shards_; ++shard) stands.push_back(of(shard));
  return stands;
}

bool LogStands::is_passed(uint32_t other, bool is_failed_itself, uint64_t waited_ns) const {
  switch (logs_[other]->state()) {
    case storage::LogState::kRunning:
      return false;
    case storage::LogState::kStalled:
      return waited_ns >= kWithoutRoom_ns;
    case storage::LogState::kFailed:
      return (is_failed_itself && ready_[other]) || waited_ns >= kFailed_ns;
  }
  return false;
}

bool LogStands::have_synced(uint32_t shard, const std::vector<storage::LogStand>& stands, uint64_t waited_ns) {
  const std::lock_guard lock(mutex_);
  const bool has_failed =
      logs_[shard] != nullptr && logs_[shard]->state() == storage::LogState::kFailed;
  for (uint32_t other = 0; other < shards_; ++other) {
    if (other == shard) continue;
    if (logs_[other] == nullptr) return false;
    if (logs_[other]->synced() >= stands[other].position) continue;
    if (!is_passed(other, has_failed, waited_ns)) return false;
  }
  return true;
}

void LogStands::set_ready(uint32_t shard, bool is_ready) {
  const std::lock_guard lock(mutex_);
  ready_[shard] = is_ready;
}

}  // namespace refract::node
