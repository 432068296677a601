// SPDX-License-Identifier: Apache-2.0
#include "refract/node/durable/log_stands.h"

#include "refract/base/units.h"

namespace refract::node {

namespace {

constexpr uint64_t kWithoutRoom_ns = 5 * kSecond_ns;

}  // namespace

void LogStands::join(uint32_t shard, const storage::ShardLog& log) {
  stands_[shard].joined_at = log.appended();
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
  // What an earlier server with another durability has left in the ring, others may follow from.
  const bool may_lose = are_needed() || log.synced() < stands_[shard].joined_at;
  const bool loses = may_lose && log.state() != storage::LogState::kRunning;
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
  stands.reserve(shards_);
  for (uint32_t shard = 0; shard < shards_; ++shard) stands.push_back(of(shard));
  return stands;
}

bool LogStands::is_passed(uint32_t other, const Waiting& snapshot, bool has_failed_itself) const {
  switch (logs_[other]->state()) {
    case storage::LogState::kRunning:
      return false;
    case storage::LogState::kStalled:
      return snapshot.waited_ns >= kWithoutRoom_ns;
    case storage::LogState::kFailed:
      return has_failed_itself && ready_[other] >= snapshot.stands[other].position;
  }
  return false;
}

LogStands::Verdict LogStands::judge(const Waiting& snapshot) {
  const std::lock_guard lock(mutex_);
  const storage::ShardLog* const own = logs_[snapshot.shard];
  const bool has_failed = own != nullptr && own->state() == storage::LogState::kFailed;
  if (has_failed && of(snapshot.shard).position > snapshot.log_position) return Verdict::kIsUseless;
  ready_[snapshot.shard] = snapshot.log_position;
  for (uint32_t other = 0; other < shards_; ++other) {
    if (other == snapshot.shard) continue;
    if (logs_[other] == nullptr) return Verdict::kWaits;
    if (logs_[other]->synced() >= snapshot.stands[other].position) continue;
    if (!is_passed(other, snapshot, has_failed)) return Verdict::kWaits;
  }
  return Verdict::kCounts;
}

void LogStands::end_wait(uint32_t shard) {
  const std::lock_guard lock(mutex_);
  ready_[shard] = 0;
}

}  // namespace refract::node
