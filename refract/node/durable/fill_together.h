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
#include <optional>
#include <vector>

#include "refract/storage/log/common_end.h"
#include "refract/storage/log/log_parts.h"

namespace refract::node {

class FillTogether {
 public:
  explicit FillTogether(uint32_t shards) : shards_(shards), needs_(shards) {}

  // Whether any of the logs may have lost its end: there is one without a ring.
  [[nodiscard]] bool is_any_end_lost(bool has_ring);
  // Waits until each shard has said what its log needs. Where this one's ends together with all others
  // (storage/log/common_end.h); UINT64_MAX: it keeps all.
  struct CommonEnd {
    uint64_t position = UINT64_MAX;
    bool is_any_cut = false;                    // Of all.
    std::optional<uint64_t> shard_with_loss{};  // As of CommonEnds.
  };
  [[nodiscard]] CommonEnd common_end(uint32_t shard, storage::LogNeeds needs);
  // Waits until each shard has said what its files know to be decided, and whether they leave anything open.
  // Returns all of it.
  struct Found {
    storage::DecidedNumbers decided;
    bool has_open = false;
  };
  [[nodiscard]] const Found& exchange(const storage::DecidedNumbers& decided, bool has_open);
  // Waits until each has synced what it read, and where it was cut, before one writes what
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
  uint32_t opened_ = 0;
  uint32_t ended_ = 0;
  uint32_t read_ = 0;
  uint32_t synced_ = 0;
  uint32_t filled_ = 0;
  bool is_any_end_lost_ = false;
  std::vector<storage::LogNeeds> needs_;
  storage::CommonEnds common_;  // Of them; without ends: not known yet.
  Found found_;
};

}  // namespace refract::node
