// SPDX-License-Identifier: Apache-2.0
// The shards of a node that fill their memories from the disk at the same time: what one has prepared of a
// transaction over several shards takes effect if the log of another one says so (docs/design/067).
//
// Threads: any; each shard's calls, once each. They block. Where a shard cannot fill its memory the process
// ends, and with it those that wait.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "refract/storage/log/log_parts.h"

namespace refract::node {

class FillTogether {
 public:
  explicit FillTogether(uint32_t shards) noexcept : shards_(shards) {}

  // Waits until each shard has said what its files know to be decided, and whether they leave anything open.
  // Returns all of it.
  struct Found {
    storage::DecidedNumbers decided;
    bool has_open = false;
  };
  [[nodiscard]] const Found& exchange(const storage::DecidedNumbers& decided, bool has_open);
  // Where any shard has something open: waits until each has synced what it read, before one writes what
  // follows from it.
  void wait_until_synced();
  // Waits until each shard has all that it had on disk: before any serves, so that a server that is killed in
  // between leaves no client whose memory is filled again.
  void wait_until_filled();

 private:
  void meet(uint32_t& count);

  const uint32_t shards_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t read_ = 0;
  uint32_t synced_ = 0;
  uint32_t filled_ = 0;
  Found found_;
};

}  // namespace refract::node
