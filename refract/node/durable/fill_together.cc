// SPDX-License-Identifier: Apache-2.0
#include "refract/node/durable/fill_together.h"

namespace refract::node {

void FillTogether::meet(uint32_t& count) {
  std::unique_lock lock(mutex_);
  ++count;
  changed_.notify_all();
  changed_.wait(lock, [&] { return count >= shards_; });
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
