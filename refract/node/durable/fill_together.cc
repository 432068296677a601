// SPDX-License-Identifier: Apache-2.0
#include "refract/node/durable/fill_together.h"

#include <algorithm>
#include <utility>

namespace refract::node {

void FillTogether::meet(uint32_t& count) {
  std::unique_lock lock(mutex_);
  ++count;
  changed_.notify_all();
  changed_.wait(lock, [&] { return count >= shards_; });
}

bool FillTogether::is_any_end_lost(bool has_ring) {
  {
    const std::lock_guard lock(mutex_);
    is_any_end_lost_ |= !has_ring;
  }
  meet(opened_);
  return is_any_end_lost_;
}

FillTogether::CommonEnd FillTogether::common_end(uint32_t shard, storage::LogNeeds needs) {
  {
    const std::lock_guard lock(mutex_);
    needs_[shard] = std::move(needs);
  }
  meet(ended_);
  const std::lock_guard lock(mutex_);
  if (common_.ends.empty()) common_ = storage::common_ends(needs_);
  const auto is_cut = [&](const storage::LogNeeds& log) {
    return common_.ends[static_cast<size_t>(&log - needs_.data())] < log.end();
  };
  return {.position = is_cut(needs_[shard]) ? common_.ends[shard] : UINT64_MAX,
          .is_any_cut = std::ranges::any_of(needs_, is_cut),
          .shard_with_loss = common_.shard_with_loss};
}

const FillTogether::Found& FillTogether::exchange(const storage::DecidedNumbers& decided, bool has_open) {
  {
    const std::lock_guard lock(mutex_);
    found_.decided.add(decided);
    found_.has_open |= has_open;
  }
  meet(read_);
  return found_;
}

void FillTogether::wait_until_synced() {
  meet(synced_);
}

void FillTogether::wait_until_filled() {
  meet(filled_);
}

}  // namespace refract::node
